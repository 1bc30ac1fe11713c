"""Sizes above which a CT file is refused before anything of it is decoded."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Largest files and images that are read.

    Parameters
    ----------
    side : rows and columns of an image.
    frames : of one multi-frame file.
    file_bytes : of a file with one image, and of a deflated file after inflation.
    multiframe_bytes : of a multi-frame file.
    scan_bytes : of all pixels of one scan.

    Examples
    --------
    >>> Limits().side, Limits(side=1024).side
    (4096, 1024)
    """

    side: int = 4096
    frames: int = 2048
    file_bytes: int = 64 << 20
    multiframe_bytes: int = 1 << 30
    scan_bytes: int = 4 << 30


LIMITS = Limits()
