"""A slide: where its patches lie, and which instances they are."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


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
        """Length of a patch at full resolution: as TRIDENT says, as CLAM does, or the step between patches."""
        said = self.attributes.get("patch_size_level0")
        if said is None and "patch_size" in self.attributes:
            said = self.attributes["patch_size"] * np.asarray(self.attributes.get("downsample", 1))
        if said is None:
            gaps = np.concatenate([np.diff(np.unique(column)) for column in self.coords.T.astype(float)])
            said = gaps.min(initial=np.inf)
        side = float(np.max(said))
        return side if 0 < side < np.inf else 1.0
