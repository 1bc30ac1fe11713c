"""What an image is: a CT slice and of which plane, or something that is left out."""

from __future__ import annotations

from collections.abc import Collection

from psimil.ct.geometry import plane_of
from psimil.ct.headers import Header

CT_CLASSES = frozenset(f"1.2.840.10008.5.1.4.1.1.2{end}" for end in ("", ".1", ".2"))
SECONDARY_CAPTURE = "1.2.840.10008.5.1.4.1.1.7"
SCOUT, CAPTURE, MODALITY, OBJECT = "scout", "secondary capture", "another modality", "another kind of object"
LEFT_OUT = (SCOUT, CAPTURE, MODALITY, OBJECT)
SCREENS = frozenset(("SCREEN SAVE", "SCREENSHOT", "DOSE", "DOSE_INFO"))


def kind_of(header: Header, modalities: Collection[str] = ("CT",)) -> str:
    """Kind in words, e.g. "axial CT"; one of ``LEFT_OUT`` for what is no slice of a series.

    Parameters
    ----------
    header : of the image.
    modalities : that are accepted.

    Examples
    --------
    >>> from pathlib import Path
    >>> from psimil.ct.folder import SliceFile
    >>> file = SliceFile(Path("a"), 1, 9)
    >>> kind_of(Header(file, modality="CT", orientation=(1, 0, 0, 0, 1, 0)))
    'axial CT'
    >>> kind_of(Header(file, modality="CT", image_type=("ORIGINAL", "PRIMARY", "LOCALIZER")))
    'scout'
    """
    words = set(header.image_type)
    if header.sop_class.startswith(SECONDARY_CAPTURE):
        return CAPTURE
    if header.modality not in modalities:
        return MODALITY
    if header.modality == "CT" and header.sop_class and header.sop_class not in CT_CLASSES:
        return OBJECT
    if "LOCALIZER" in words:
        return SCOUT
    if words & SCREENS or ("SECONDARY" in words and "AXIAL" not in words) or header.samples != 1:
        return CAPTURE
    plane = plane_of(header.orientation)
    return f"{plane} {header.modality}" if plane else f"{header.modality} without orientation"
