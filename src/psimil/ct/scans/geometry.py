"""Where slices are: the normal of their plane, their order along it, and what is odd about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from psimil.ct.dicom.headers import Header

THICKEST = 1000.0  # millimetres above which a slice thickness is a mistake
SAME = 1e-3  # millimetres within which two positions are one
PLANES = ("sagittal", "coronal", "axial")
OBLIQUE = 0.8  # cosine below which a normal belongs to no plane; gantries tilt by 30 degrees at most
SHOWN = 3  # notes of one kind that are written out


@dataclass(frozen=True)
class Arrangement:
    """Slices in order with their positions (S,) in millimetres, and notes."""

    slices: tuple[Header, ...] = field(repr=False)
    positions: NDArray[np.float64]
    notes: tuple[str, ...]


def normal_of(orientation: Sequence[float] | None) -> NDArray[np.float64] | None:
    """(3,) unit normal of a plane, its largest part positive; None when the six cosines span no plane.

    Examples
    --------
    >>> normal_of((-1, 0, 0, 0, 1, 0)).tolist(), normal_of((0, 0, 0, 0, 0, 0))
    ([0.0, 0.0, 1.0], None)
    """
    if orientation is None:
        return None
    normal: NDArray[np.float64] = np.cross(np.asarray(orientation[:3], float), np.asarray(orientation[3:], float))
    length = float(np.linalg.norm(normal))
    if not 0.9 < length < 1.1:
        return None
    sign = float(np.sign(normal[np.argmax(np.abs(normal))]))
    unit: NDArray[np.float64] = normal * (sign / length) + 0.0  # no negative zeros
    return unit


def plane_of(orientation: Sequence[float] | None) -> str:
    """Name of the plane: axial, coronal, sagittal, oblique, or empty when unknown.

    Examples
    --------
    >>> plane_of((1, 0, 0, 0, 0.966, -0.259)), plane_of((1, 0, 0, 0, 0, -1)), plane_of(None)
    ('axial', 'coronal', '')
    """
    normal = normal_of(orientation)
    if normal is None:
        return ""
    axis = int(np.argmax(np.abs(normal)))
    return PLANES[axis] if abs(normal[axis]) >= OBLIQUE else "oblique"


def arrange(slices: Sequence[Header]) -> Arrangement:
    """Slices of one series ordered by their position along the normal; one is kept of those at the same place.

    Without positions the order is that of InstanceNumber, and slices are taken to be as far apart as they are thick.

    Parameters
    ----------
    slices : of one orientation, in any order.

    Examples
    --------
    >>> from pathlib import Path
    >>> from psimil.ct.dicom.folder import SliceFile
    >>> one, two = (Header(SliceFile(Path("a"), n, 9), instance_number=9 - n, thickness=5.0) for n in (1, 2))
    >>> found = arrange([one, two])
    >>> [slice.words for slice in found.slices], found.positions.tolist(), found.notes
    (['file 2', 'file 1'], [0.0, 5.0], ('slices have no positions; order falls back to InstanceNumber',))
    """
    unique, notes = _without_copies(slices)
    normal = normal_of(unique[0].orientation)
    if normal is None or any(header.position is None for header in unique):
        unique.sort(key=_number)
        thickness = unique[0].thickness
        step = thickness if thickness is not None and 0 < thickness < THICKEST else 1.0
        notes.append("slices have no positions; order falls back to InstanceNumber")
        return Arrangement(tuple(unique), step * np.arange(len(unique), dtype=float), tuple(notes))
    along = [(float(np.dot(normal, np.asarray(header.position, float))), header) for header in unique]
    along.sort(key=lambda pair: (pair[0], *_number(pair[1])))
    apart, same = [along[0]], []
    for place, header in along[1:]:
        before, first = apart[-1]
        if place - before > SAME:
            apart.append((place, header))
        else:
            same.append(
                f"{first.words} and {header.words} have the same position; the first by InstanceNumber was kept"
            )
    positions, ordered = np.array([place for place, _ in apart]), [header for _, header in apart]
    notes += _shortened(same) + _gaps(ordered, positions) + _tilt(ordered, normal)
    return Arrangement(tuple(ordered), positions, tuple(notes))


def _number(header: Header) -> tuple[float, int, int]:
    """InstanceNumber, then frame, then file."""
    number = header.instance_number
    return (float("inf") if number is None else number, header.frame or 0, header.file.number)


def _without_copies(slices: Sequence[Header]) -> tuple[list[Header], list[str]]:
    """One slice for each SOPInstanceUID and frame."""
    distinct: dict[tuple[str, int | None], Header] = {}
    notes = []
    for place, header in enumerate(slices):
        first = distinct.setdefault((header.sop_instance or f"#{place}", header.frame), header)
        if first is not header:
            notes.append(f"{first.words} and {header.words} have the same SOPInstanceUID; the first was kept")
    return list(distinct.values()), _shortened(notes)


def _gaps(slices: list[Header], positions: NDArray[np.float64]) -> list[str]:
    steps = np.diff(positions)
    usual = float(np.median(steps)) if len(steps) else 0.0
    wide = [i for i in range(len(steps)) if steps[i] > 1.5 * usual] if len(steps) > 1 else []
    words = "gap of {:.1f} mm between {} and {}; slices are {:.1f} mm apart"
    return _shortened([words.format(steps[i], slices[i].words, slices[i + 1].words, usual) for i in wide])


def _tilt(slices: list[Header], normal: NDArray[np.float64]) -> list[str]:
    """Gantry tilt: the table moves along another line than the normal."""
    first, last = slices[0].position, slices[-1].position
    if len(slices) == 1 or first is None or last is None:
        return []
    move = np.subtract(last, first)
    cosine = min(abs(float(normal @ move)) / float(np.linalg.norm(move)), 1.0)
    angle = float(np.degrees(np.arccos(cosine)))
    return [f"gantry tilt of {angle:.1f} degrees"] if angle > 0.5 else []


def _shortened(notes: list[str]) -> list[str]:
    rest = len(notes) - SHOWN
    return notes if rest <= 0 else [*notes[:SHOWN], f"and {rest} more like that"]
