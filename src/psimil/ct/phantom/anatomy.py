"""One head without blood: skull, brain, fluid, and all that is bright in healthy heads too."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from psimil.ct.phantom.lesions import EGG, Array, Place, Point, ellipsoid, ramp

LOWEST, HIGHEST = -48.0, 84.0  # mm of head that a scan covers, from the base of the skull to the vertex
GREY, FLUID = 37.0, 9.0  # HU of cortex and of cerebrospinal fluid
PITCH, LEVEL = 7.0, 9.0  # mm between the knots of the random textures, in the plane and upwards
Window = tuple[slice, slice]


class Grid:
    """Pixels of a scan in the frame of a head: where they are, and smooth random textures on them.

    Parameters
    ----------
    anatomy : the head.
    size : rows and columns.

    Examples
    --------
    >>> grid = Grid(Anatomy(np.random.default_rng(0)), 64)
    >>> whole = slice(0, 64), slice(0, 64)
    >>> grid.textures(np.array([10.0, 12.0]), whole).shape
    (2, 2, 64, 64)
    """

    def __init__(self, anatomy: Anatomy, size: int) -> None:
        self.spacing = round(anatomy.view / size, 4)
        at = ((np.arange(size) - (size - 1) / 2) * self.spacing).astype(np.float32)
        right, back = at - np.float32(anatomy.centre[0]), at[:, None] - np.float32(anatomy.centre[1])
        self.base = [row[0] * right + row[1] * back for row in anatomy.turn]
        self.up = [float(row[2]) for row in anatomy.turn]
        knots = np.arange(-0.5 * anatomy.view - 2 * PITCH, 0.5 * anatomy.view + 2 * PITCH, PITCH)
        self.levels = np.arange(LOWEST - 2 * LEVEL, HIGHEST + 2 * LEVEL, LEVEL)
        self.weights = _spline(at, knots, PITCH)  # (size, knots)
        self.fields = anatomy.fields[:, : len(self.levels), : len(knots), : len(knots)]

    def window(self, skull: Point, height: float) -> Window:
        """Rows and columns around the head at a height, found on every fourth pixel."""
        x, y, z = (base[::4, ::4] + np.float32(up * height) for base, up in zip(self.base, self.up, strict=True))
        near = _radius(skull, x, y, z) < 1.3
        rows, columns = (np.flatnonzero(near.any(axis=axis)) for axis in (1, 0))
        if not len(rows):
            return slice(0, 1), slice(0, 1)
        return slice(max(4 * rows[0] - 3, 0), 4 * rows[-1] + 4), slice(max(4 * columns[0] - 3, 0), 4 * columns[-1] + 4)

    def frame(self, heights: NDArray[np.float64], window: Window) -> list[Array]:
        """Coordinates x, y, z in the head, each (Q, rows, columns), at Q heights."""
        at = heights.astype(np.float32)[:, None, None]
        return [base[window] + np.float32(up) * at for base, up in zip(self.base, self.up, strict=True)]

    def textures(self, heights: NDArray[np.float64], window: Window) -> Array:
        """(2, Q, rows, columns) smooth random fields with a standard deviation of about a third."""
        coarse = np.einsum("qk,fkyx->fqyx", _spline(heights, self.levels, LEVEL), self.fields)
        textures: Array = self.weights[window[0]] @ coarse @ self.weights[window[1]].T
        return textures


class Anatomy:
    """One head: sizes and brightness are drawn once, tissue is painted slice by slice.

    Parameters
    ----------
    rng : source of chance.

    Examples
    --------
    >>> anatomy = Anatomy(np.random.default_rng(0))
    >>> hu, place = anatomy.paint(Grid(anatomy, 64), np.array([18.0, 20.0]), (slice(0, 64), slice(0, 64)))
    >>> hu.shape, bool(hu.min() == -1000), bool(hu.max() > 500)
    ((2, 64, 64), True, True)
    """

    def __init__(self, rng: np.random.Generator) -> None:
        u = rng.uniform
        self.skull = (u(60.0, 69.0), u(76.0, 88.0), u(78.0, 88.0))
        self.view, self.centre = u(215.0, 250.0), (u(-7.0, 7.0), u(-7.0, 7.0))
        self.turn = _rotation(u(-0.16, 0.16), u(-0.17, 0.17), u(-0.06, 0.06))
        self.bone, self.scalp, self.dense = u(4.5, 8.0), u(3.0, 7.5), u(900.0, 1500.0)
        self.white, self.rim = GREY - u(5.0, 9.0), u(0.8, 3.5)
        self.swell, self.sulcus = u(0.8, 1.5), u(0.08, 0.18)
        self.veins, self.sheets = u(48.0, 64.0), u(50.0, 68.0)
        self.cupping, self.hardening, self.streaks = u(0.0, 6.0), u(4.0, 14.0), u(1.0, 5.0)
        self.phase = u(0.0, 6.3)
        self.fields = rng.standard_normal((2, 19, 44, 44), dtype=np.float32)
        self.spots = _calcifications(rng)
        side = rng.choice((-1.0, 1.0))
        self.bump = (side * u(40.0, 66.0), u(-60.0, 60.0), u(5.0, 50.0)) if u() < 0.3 else None
        self.scar = (side * u(15.0, 45.0), u(-50.0, 50.0), u(5.0, 45.0), u(7.0, 18.0)) if u() < 0.25 else None

    def paint(self, grid: Grid, heights: NDArray[np.float64], window: Window) -> tuple[Array, Place]:
        """(Q, rows, columns) Hounsfield units in a window at Q heights, and the place for blood."""
        x, y, z = grid.frame(heights, window)
        folds, patches = grid.textures(heights, window)
        f = np.float32
        depth = (1 - _radius(self.skull, x, y, z)) * f(0.5 * (self.skull[0] + self.skull[1]))
        hu = np.full_like(x, -1000.0)
        thick = f(self.bone) * (1 + (y / f(130.0)) ** 2 + f(0.3) * patches)
        skin = depth + thick + f(self.scalp)
        if self.bump is not None:
            skin = skin + np.clip(ellipsoid(x, y, z, self.bump, (30.0, 30.0, 22.0)) * f(0.6), 0.0, 9.0)
        blend(hu, 48.0, ramp(skin))
        blend(hu, -75.0, f(0.8) * ramp(skin - f(2.0)) * ramp(f(self.scalp - 3.5) - skin))
        blend(hu, self.dense, ramp(depth + thick))
        floor = None
        if z.min() < 12:  # height above the floor of the skull, which goes down in two steps towards the back
            floor = z + 7 + 22 * ramp(y + f(22.0), 26.0) + 30 * ramp(y - f(16.0), 20.0) + 6 * patches
            _face(hu, x, y, z, ramp(-floor - f(4.0)) * ramp(depth), patches)
            depth = np.minimum(depth, floor)
        within, brain = ramp(depth), ramp(depth - f(self.rim))
        blend(hu, FLUID, within)
        spaces, ventricles = self._fluid(x, y, z, depth, folds)
        white = np.clip((depth - 6 + 5 * patches) / 5, 0.0, 1.0) * f(self.white - GREY)
        for side in (-1, 1):
            white *= 1 - ramp(ellipsoid(x, y, z, (side * 21.0, -2.0, 11.0), (7.0, 16.0, 12.0), side * 0.3), 4.0)
        blend(hu, GREY + white + f(1.5) * patches, brain * (1 - spaces) * (1 - ventricles))
        if self.scar is not None:
            blend(hu, 16.0, f(0.8) * within * ramp(ellipsoid(x, y, z, self.scar[:3], (self.scar[3],) * 3), 5.0))
        self._bright(hu, x, y, z, depth)
        hu += within * (f(self.cupping) * np.clip(1 - depth / 18, 0.0, 1.0) ** 2)
        if floor is not None:
            self._petrous(hu, x, y, z, within, patches)
        return hu, Place(x, y, z, depth, spaces * within, ventricles * within)

    def _fluid(self, x: Array, y: Array, z: Array, depth: Array, folds: Array) -> tuple[Array, Array]:
        """Share of fluid around the brain (sulci, fissures, cisterns) and in the ventricles."""
        f = np.float32
        sulci = np.clip(1 - np.abs(folds) / f(self.sulcus), 0, 1) * np.clip(1.3 - depth / 18, 0, 1)
        fissure = ramp(f(0.4 + 0.3 * self.rim) - np.abs(x))
        spaces = sulci + fissure * ramp(np.abs(y) - f(42.0) + np.maximum(z - 25, 0), 8.0)
        spaces += ramp(ellipsoid(x, y, z, (0.0, -6.0, -17.0), (14.0, 10.0, 6.0)), 3.0)
        spaces += ramp(ellipsoid(x, y, z, (0.0, 29.0, -3.0), (14.0, 3.5, 7.0)), 3.0)
        swell, inner = self.swell, np.zeros_like(x)
        for side in (-1, 1):
            spaces += ramp(ellipsoid(x, y, z, (side * 47.0, -14.0, 2.0), (13.0, 2.5, 14.0), side * 0.25), 2.5)
            front, back = (side * 8.5, -12.0, 18.0), (side * 20.0, 33.0, 13.0)
            inner += ramp(ellipsoid(x, y, z, front, (4.5 * swell, 27.0, 10.0 * swell), side * 0.2))
            inner += ramp(ellipsoid(x, y, z, back, (4.5 * swell, 20.0, 8.0 * swell), -side * 0.35))
        inner += ramp(ellipsoid(x, y, z, (0.0, 5.0, 3.0), (2.2 * swell, 11.0, 10.0)))
        inner += ramp(ellipsoid(x, y, z, (0.0, 40.0, -30.0), (7.0 * swell, 4.5 * swell, 8.0)))
        return np.minimum(spaces, f(1.0)), np.minimum(inner, f(1.0))

    def _bright(self, hu: Array, x: Array, y: Array, z: Array, depth: Array) -> None:
        """Falx, tentorium, venous sinuses and calcifications."""
        f, within = np.float32, ramp(depth)
        wide: Array = np.abs(x)
        falx = ramp(f(0.9) - wide, 1.6) * ramp(np.abs(y) - f(38.0) + np.maximum(z - 22, 0), 4.0) * ramp(z + f(2.0))
        blend(hu, self.sheets, within * falx * f(0.85))
        roof: Array = z - f(14.0) + f(0.62) * wide + f(0.18) * np.maximum(y - f(20.0), f(0.0))
        tent = ramp(f(1.2) - np.abs(roof)) * ramp(y - f(14.0) - f(0.1) * wide, 4.0)
        blend(hu, self.sheets, f(0.75) * within * tent)
        sagittal = ramp(f(7.5) - depth - wide) * ramp(np.maximum(y - 45, z - 48), 4.0) * ramp(z + f(6.0))
        transverse = ramp(f(7.0) - depth) * ramp(f(5.5) - np.abs(z + f(14.0))) * ramp(y - f(22.0), 5.0)
        blend(hu, self.veins, within * np.maximum(sagittal, transverse))
        for centre, radius, value in self.spots:
            blend(hu, value, ramp(ellipsoid(x, y, z, centre, (radius, radius, 1.6 * radius))))

    def _petrous(self, hu: Array, x: Array, y: Array, z: Array, within: Array, patches: Array) -> None:
        """Petrous bones, the dark band between them, and streaks that start from them."""
        f, wide = np.float32, np.abs(x)
        low = ramp(-14 - z, 10.0)
        ridge = np.abs((y - 4) * f(0.87) - (wide - 14) * f(0.5)) - np.clip(-14 - z, 0, 20) * f(0.35) - 5 * patches
        blend(hu, 1100.0, within * low * ramp(3 - ridge) * ramp(wide - 16))
        hu -= within * low * np.clip(1 - np.abs(y - 14) / 22, 0.0, 1.0) * f(self.hardening)
        rays = np.sin(np.arctan2(y - 14, wide - 45) * 23 + f(self.phase))
        hu += within * ramp(-4 - z, 16.0) * rays * f(self.streaks)


def blend(hu: Array, value: float | Array, share: Array) -> None:
    """Replace a share of every voxel, in place.

    Examples
    --------
    >>> hu = np.float32([0.0, 10.0])
    >>> blend(hu, 50.0, np.float32([0.5, 0.0]))
    >>> hu.tolist()
    [25.0, 10.0]
    """
    hu += share * (np.asarray(value, dtype=np.float32) - hu)


def _face(hu: Array, x: Array, y: Array, z: Array, below: Array, patches: Array) -> None:
    """Under the floor of the skull: muscle, bone with air cells, nose, orbits with eyes."""
    blend(hu, np.where(patches > 0.12, np.float32(700.0), np.float32(50.0)), below)
    blend(hu, -900.0, below * ramp(ellipsoid(x, y, z, (0.0, -48.0, -36.0), (13.0, 26.0, 26.0)), 3.0))
    for side in (-1, 1):
        blend(hu, -80.0, below * ramp(ellipsoid(x, y, z, (side * 30.0, -58.0, -24.0), (17.0, 24.0, 16.0))))
        blend(hu, 20.0, below * ramp(ellipsoid(x, y, z, (side * 31.0, -66.0, -24.0), (11.5, 11.5, 11.5))))


def _calcifications(rng: np.random.Generator) -> list[tuple[Point, float, float]]:
    """Centre, radius and brightness of the spots in pineal gland, choroid plexus, basal ganglia and falx."""
    pineal, plexus, ganglia, falx = rng.uniform(size=4) < (0.65, 0.6, 0.2, 0.25)
    places = [(pineal, 0.0, 24.0, 9.0), (falx, 1.0, -55.0, 45.0)]
    for side in (-1, 1):
        places += [(plexus, side * 19.0, 30.0, 14.0), (ganglia, side * 19.0, -2.0, 10.0)]
    spots = []
    for present, x, y, z in places:
        (dx, dy, dz), radius, value = rng.normal(0.0, 1.5, 3).tolist(), rng.uniform(1.8, 4.5), rng.uniform(80.0, 200.0)
        if present:
            spots.append(((x + dx, y + dy, z + 4 * dz), radius, value))
    return spots


def _radius(skull: Point, x: Array, y: Array, z: Array) -> Array:
    """Distance from the middle of the head, 1 on the inner face of the skull."""
    across = x / (np.float32(skull[0]) + y * np.float32(EGG * skull[0] / skull[1]))
    along, up = y / np.float32(skull[1]), z / np.float32(skull[2])
    up = np.where(up < 0, np.float32(0.75) * up, up)  # the head narrows slowly towards the neck
    radius: Array = np.sqrt(across * across + along * along + up * up * np.sqrt(np.abs(up)))
    return radius


def _rotation(plane: float, nod: float, lean: float) -> NDArray[np.float32]:
    """(3, 3) rotation by an angle in the plane of the slice, then nodding, then leaning to a shoulder."""
    (c, s), (cn, sn), (cl, sl) = ((np.cos(a), np.sin(a)) for a in (plane, nod, lean))
    turned = np.array([[c, s, 0], [-s, c, 0], [0, 0, 1]])
    nodded = np.array([[1, 0, 0], [0, cn, -sn], [0, sn, cn]])
    leant = np.array([[cl, 0, -sl], [0, 1, 0], [sl, 0, cl]])
    return np.asarray(leant @ nodded @ turned, dtype=np.float32)


def _spline(at: NDArray[np.floating], knots: NDArray[np.float64], pitch: float) -> Array:
    """(len(at), len(knots)) values of cubic B-splines around the knots."""
    t = np.abs(np.asarray(at, dtype=np.float64)[:, None] - knots) / pitch
    inner, outer = 2 / 3 - t**2 + t**3 / 2, np.clip(2 - t, 0.0, None) ** 3 / 6
    return np.where(t < 1, inner, outer).astype(np.float32)
