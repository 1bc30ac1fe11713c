"""A slide: where its patches lie, and which instances they are."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

Array = NDArray[Any]

USUAL = 256.0  # pixels of a patch that nothing is known about


class Slide(NamedTuple):
    """The patches of one slide.

    Parameters
    ----------
    name : of the slide.
    start : the first of its instances; the others follow.
    coords : (n, 2) upper left corner of each patch, x and y in pixels of the full resolution.
    attributes : what its file says about the patches in numbers, such as ``patch_size``.

    Examples
    --------
    >>> slide = Slide("s1", 3, np.array([[0, 0], [512, 0]]), {"patch_size": 256, "patch_size_level0": 512})
    >>> slide.rows, slide.side
    (slice(3, 5, None), 512.0)
    """

    name: str
    start: int
    coords: Array
    attributes: Mapping[str, Array]

    @property
    def rows(self) -> slice:
        """Where its instances are in arrays of shape (N,)."""
        return slice(self.start, self.start + len(self.coords))

    @property
    def side(self) -> float:
        """Length of a patch at full resolution: as TRIDENT says, as CLAM does, or how far apart neighbours lie.

        Where nothing tells, as of a single patch, it is 256.
        """
        said = self.attributes
        for known in (
            said.get("patch_size_level0", 0.0),
            said.get("patch_size", 0.0) * np.asarray(said.get("downsample", 1.0)),
        ):
            if 0 < (side := float(np.max(known))) < np.inf:
                return side
        places = np.unique(self.coords.astype(float), axis=0)
        if len(places) < 2:
            return USUAL
        nearest, _ = cKDTree(places).query(places, k=[2], p=np.inf)  # of itself the distance is 0
        return float(np.median(nearest))
