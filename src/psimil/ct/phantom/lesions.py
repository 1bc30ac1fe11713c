"""Blood in a synthetic head: five kinds, each a share between 0 and 1 of every voxel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.errors import InputError

KINDS = ("epidural", "subdural", "intraparenchymal", "subarachnoid", "intraventricular")
EDGE = 1.3  # mm over which one tissue passes into another
EGG = 0.12  # a head is this much wider behind than its middle

Array = NDArray[np.float32]
Point = tuple[float, float, float]  # or the half axes of an ellipsoid, in mm


@dataclass(frozen=True, eq=False)
class Place:
    """One slice of a head, sampled Q times through its thickness, in mm in the frame of the head.

    Parameters
    ----------
    x, y, z : (Q, rows, columns) to the left, to the back and to the top of the head.
    depth : (Q, rows, columns) below the inner face of the skull, negative outside.
    spaces : (Q, rows, columns) share of cerebrospinal fluid around the brain: sulci and cisterns.
    ventricles : (Q, rows, columns) share of that inside.
    """

    x: Array
    y: Array
    z: Array
    depth: Array
    spaces: Array
    ventricles: Array


@dataclass(frozen=True, eq=False)
class Blood:
    """One bleed: what it is, how bright, and which share of each voxel it fills.

    Parameters
    ----------
    kind : one of ``KINDS``.
    value : Hounsfield units.
    share : gives (Q, rows, columns) in [0, 1] for a place.
    """

    kind: str
    value: float
    share: Callable[[Place], Array]


def ramp(distance: Array, edge: float = EDGE) -> Array:
    """Share of tissue at a distance in mm inside its face: 0 outside, 1 inside, straight in between.

    Examples
    --------
    >>> ramp(np.float32([-2.0, 0.0, 2.0])).tolist()
    [0.0, 0.5, 1.0]
    """
    share: Array = np.clip(distance * np.float32(1.0 / edge) + np.float32(0.5), 0.0, 1.0)
    return share


def ellipsoid(x: Array, y: Array, z: Array, centre: Point, axes: Point, turn: float = 0.0) -> Array:
    """Distance inside an ellipsoid that is turned in the plane, in mm along its shortest axis, negative outside.

    Parameters
    ----------
    x, y, z : coordinates of one shape.
    centre : of the ellipsoid.
    axes : half lengths.
    turn : angle of the first axis, in radians.

    Returns
    -------
    inside : of the shape of the coordinates, or a single value in an array when all are far above or below.

    Examples
    --------
    >>> at = np.float32([0.0, 3.0, 6.0])
    >>> ellipsoid(at, 0 * at, 0 * at, (0.0, 0.0, 0.0), (3.0, 2.0, 4.0)).tolist()
    [2.0, 0.0, -2.0]
    """
    if z.min() > centre[2] + 2 * axes[2] or z.max() < centre[2] - 2 * axes[2]:
        return np.full((1,) * z.ndim, -min(axes), dtype=np.float32)
    dx, dy = x - np.float32(centre[0]), y - np.float32(centre[1])
    cosine, sine = np.float32(np.cos(turn)), np.float32(np.sin(turn))
    along, across = (dx * cosine + dy * sine) / np.float32(axes[0]), (dy * cosine - dx * sine) / np.float32(axes[1])
    up = (z - np.float32(centre[2])) / np.float32(axes[2])
    radius: Array = np.sqrt(along * along + across * across + up * up)
    return (np.float32(1.0) - radius) * np.float32(min(axes))


def draw_blood(rng: np.random.Generator, kind: str, skull: Point, half: float) -> Blood:
    """A random bleed.

    Parameters
    ----------
    rng : source of chance.
    kind : one of ``KINDS``.
    skull : half axes of the inside of the skull in mm.
    half : half of the height of the bleed in mm.

    Raises
    ------
    InputError
        When the kind is unknown.

    Examples
    --------
    >>> draw_blood(np.random.default_rng(0), "subdural", (64.0, 82.0, 85.0), 15.0).kind
    'subdural'
    """
    check_kind(kind)
    share = SHAPES[kind](rng, skull, half)
    return Blood(kind, float(rng.uniform(65.0, 80.0)), share)


def check_kind(kind: str) -> None:
    """Refuse blood of an unknown kind."""
    if kind not in KINDS:
        raise InputError(f"kind of blood must be one of {', '.join(KINDS)}, or None for any.")


def _on_skull(skull: Point, angle: float, height: float) -> Point:
    """The point of the inner face of the skull in a direction of the plane, at a height."""
    ring = float(np.sqrt(max(1.0 - (height / skull[2]) ** 2, 0.1)))
    back = np.sin(angle) * ring
    return float(skull[0] * (1 + EGG * back) * np.cos(angle) * ring), float(skull[1] * back), height


def _sideways(rng: np.random.Generator, spread: float) -> float:
    """Angle in the plane, left or right, at most ``spread`` from the side of the head."""
    return float(rng.uniform(-spread, spread) + np.pi * rng.integers(2))


def _epidural(rng: np.random.Generator, skull: Point, half: float) -> Callable[[Place], Array]:
    """A lens: an ellipsoid around a point of the skull, as far as it is inside."""
    angle, height = _sideways(rng, 0.9), float(rng.uniform(5.0, 40.0))
    centre = _on_skull(skull, angle, height)
    axes = (float(rng.uniform(12.0, 24.0)), float(rng.uniform(22.0, 42.0)), half)
    turn = float(np.arctan2(np.sin(angle) / skull[1], np.cos(angle) / skull[0]))
    return lambda at: ramp(ellipsoid(at.x, at.y, at.z, centre, axes, turn)) * ramp(at.depth)


def _subdural(rng: np.random.Generator, skull: Point, half: float) -> Callable[[Place], Array]:
    """A crescent: a layer below the skull on one side, thickest in the middle."""
    angle, height = _sideways(rng, 0.5), float(rng.uniform(12.0, 45.0))
    thick, span = float(rng.uniform(8.0, 16.0)), float(rng.uniform(0.9, 1.5))
    cosine, sine = np.float32(np.cos(angle) / skull[0]), np.float32(np.sin(angle) / skull[1])

    def share(at: Place) -> Array:
        length = np.hypot(at.x / np.float32(skull[0]), at.y / np.float32(skull[1])) + np.float32(1e-3)
        off = (1 - (at.x * cosine + at.y * sine) / length) / np.float32(1 - np.cos(span))
        up = (at.z - np.float32(height)) / np.float32(1.15 * half)
        layer = np.float32(thick) * (1 - off) * np.sqrt(np.clip(1 - up * up, 0.0, 1.0))
        side: Array = at.x * np.float32(np.sign(np.cos(angle)))
        return ramp(layer - at.depth) * ramp(at.depth - np.float32(0.5)) * ramp(side - np.float32(2.0))

    return share


def _parenchymal(rng: np.random.Generator, skull: Point, half: float) -> Callable[[Place], Array]:
    """A lump within the brain with an uneven face."""
    distance, angle = float(rng.uniform(0.3, 0.7)), _sideways(rng, 1.2)
    edge = _on_skull(skull, angle, float(rng.uniform(8.0, 45.0)))
    centre = (edge[0] * distance, edge[1] * distance, edge[2])
    axes = (float(rng.uniform(9.0, 24.0)), float(rng.uniform(9.0, 28.0)), half)
    turn, phase = float(rng.uniform(0.0, np.pi)), rng.uniform(0.0, 6.3, 3).astype(np.float32)

    def share(at: Place) -> Array:
        uneven = np.sin(at.x * 0.23 + phase[0]) + np.sin(at.y * 0.27 + phase[1]) + np.sin(at.z * 0.21 + phase[2])
        inside = ellipsoid(at.x, at.y, at.z, centre, axes, turn) + uneven * np.float32(0.06 * min(axes))
        return ramp(inside, 2.5) * ramp(at.depth - np.float32(2.0))

    return share


def _subarachnoid(rng: np.random.Generator, skull: Point, half: float) -> Callable[[Place], Array]:
    """Fluid around the brain replaced by blood, which widens the sulci, in one region."""
    edge = _on_skull(skull, _sideways(rng, 1.0), float(rng.uniform(2.0, 45.0)))
    centre = (edge[0] * 0.7, edge[1] * 0.7, edge[2])
    axes = (float(rng.uniform(40.0, 58.0)), float(rng.uniform(42.0, 70.0)), 1.1 * half)

    def share(at: Place) -> Array:
        region = ramp(ellipsoid(at.x, at.y, at.z, centre, axes), 6.0) * ramp(at.depth - np.float32(1.5))
        widened: Array = np.minimum(np.float32(2.2) * at.spaces, np.float32(1.0))
        return widened * region

    return share


def _ventricular(rng: np.random.Generator, _: Point, half: float) -> Callable[[Place], Array]:
    """Fluid in the ventricles replaced by blood, below a level when the patient lies on the back."""
    level, height = np.float32(rng.uniform(-45.0, 15.0)), np.float32(rng.uniform(11.0, 19.0))
    return lambda at: at.ventricles * ramp(at.y - level, 3.0) * ramp(np.float32(half) - np.abs(at.z - height))


SHAPES = dict(zip(KINDS, (_epidural, _subdural, _parenchymal, _subarachnoid, _ventricular), strict=True))
