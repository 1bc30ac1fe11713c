"""Frames of an enhanced multi-frame CT file as slices."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from types import ModuleType
from typing import Any

from psimil.ct.folder import open_file
from psimil.ct.headers import Header
from psimil.ct.quiet import quiet_pydicom
from psimil.foundations.errors import InputError

SHARED, PER_FRAME = 0x52009229, 0x52009230
GROUPS = {
    "position": ("PlanePositionSequence", "ImagePositionPatient", 3),
    "orientation": ("PlaneOrientationSequence", "ImageOrientationPatient", 6),
    "spacing": ("PixelMeasuresSequence", "PixelSpacing", 2),
    "thickness": ("PixelMeasuresSequence", "SliceThickness", 1),
    "slope": ("PixelValueTransformationSequence", "RescaleSlope", 1),
    "intercept": ("PixelValueTransformationSequence", "RescaleIntercept", 1),
}


def frames_of(header: Header) -> tuple[Header, ...]:
    """A header for each frame; the header itself when the file has one image.

    Parameters
    ----------
    header : of the file.

    Raises
    ------
    InputError
        When the groups of the frames cannot be read.

    Examples
    --------
    >>> from pathlib import Path
    >>> from psimil.ct.folder import SliceFile
    >>> len(frames_of(Header(SliceFile(Path("a"), 1, 9))))
    1
    """
    if header.frames == 1 and not header.sop_class.startswith("1.2.840.10008.5.1.4.1.1.2."):
        return (header,)
    try:
        with quiet_pydicom() as pydicom:
            shared, frames = _groups(header, pydicom)
            given = {name: _value(shared, name) for name in GROUPS}
            own = [{name: _value(frame, name) for name in GROUPS} for frame in frames]
    except RecursionError:
        raise InputError("header nested deeper than 32 levels.") from None
    except InputError:
        raise
    except Exception:  # pydicom raises many kinds on damaged headers, and quotes them
        raise InputError("the groups of its frames cannot be read.") from None
    if own and len(own) != header.frames:
        raise InputError(f"{len(own)} groups describe {header.frames} frames.")
    if not own:  # the position in the header cannot be that of every frame
        header = replace(header, position=None)
    slices = []
    for place in range(header.frames):
        found: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        found |= {name: value for name, value in (own[place] if own else {}).items() if value is not None}
        slices.append(replace(header, frame=place + 1, **found))
    return tuple(slices)


def _groups(header: Header, pydicom: ModuleType) -> tuple[Any, list[Any]]:
    """Functional groups of all frames and of each."""
    with os.fdopen(open_file(header.file.path), "rb") as stream:
        dataset = pydicom.dcmread(stream, stop_before_pixels=True, specific_tags=[SHARED, PER_FRAME])
        shared = list(dataset.get("SharedFunctionalGroupsSequence", []))
        return (shared[0] if shared else None), list(dataset.get("PerFrameFunctionalGroupsSequence", []))


def _value(group: Any, name: str) -> tuple[float, ...] | float | None:
    sequence, keyword, n = GROUPS[name]
    if group is None or not (items := group.get(sequence)):
        return None
    value = items[0].get(keyword)
    if value is None:
        return None
    numbers = (float(value),) if n == 1 else tuple(float(part) for part in value)
    if n == 1:
        return numbers[0]
    return numbers if len(numbers) == n and all(map(math.isfinite, numbers)) else None
