"""A table of instances as the model wants it: bags, their labels and slides; what to read, and from which source."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from psimil.data.feature_choice import Names
from psimil.foundations.arrays import Array
from psimil.foundations.errors import InputError
from psimil.model.bags import Bags
from psimil.model.labels import ZERO_ONE, Classes

BAG = "bag"  # column of the bag ids, unless another is named
FARTHEST = 2.0**63  # positions along a bag beyond are none; nanoseconds since 1970 are not
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


@dataclass(frozen=True)
class TableOptions:
    """What is read of a table, a folder or an archive; the fields are parameters of :func:`psimil.read_bags`."""

    bag: str = BAG
    label: str | None = None
    instance_label: str | None = None
    features: Names = None
    drop: Names = None
    position: str | None = None
    positive: str | None = None
    classes: Classes | None = None
    labels_optional: bool = False

    @property
    def named_bag(self) -> str | None:
        """The column of the bags, if one was asked for."""
        return None if self.bag == BAG else self.bag


ALL_OF_IT = TableOptions()


@dataclass(frozen=True, eq=False)
class BagTable:
    """A table of instances as the model wants it.

    Parameters
    ----------
    bags : B bags as they first appear, N instances; ``bags.rows`` maps back to the rows of the file.
    y : (B,) 1 for positive and 0 for negative bags, in the order of ``bags.ids``, or None.
    y_instances : (N,) instance labels in the order of ``bags.X``, -1 for unknown, or None.
    classes : what the file calls negative and positive bags.
    positions : (N,) along each bag, in the order of ``bags.X``, which is theirs; None when no column was named.
    slides : those that say where their patches lie.
    """

    bags: Bags
    y: NDArray[np.int64] | None
    y_instances: NDArray[np.int64] | None
    classes: Classes = ZERO_ONE
    positions: NDArray[np.float64] | None = None
    slides: tuple[Slide, ...] = ()

    @property
    def feature_names(self) -> tuple[str, ...]:
        """D names of the features; "0", "1", ... where the file has none."""
        return self.bags.feature_names or tuple(map(str, range(self.bags.n_features)))

    @property
    def labels(self) -> Array | None:
        """(B,) labels of the bags as the file has them, or None."""
        return None if self.y is None else np.array(self.classes)[self.y]


class Rows(NamedTuple):
    """The next rows of a file: X (n, D), places (n,) bag after bag, instance labels and positions (n,) or None."""

    X: Array
    places: Array
    known: Array | None = None
    positions: Array | None = None


class Source(Protocol):
    """Bags in a file that is read chunk by chunk, whatever its size and the order of its rows.

    Attributes
    ----------
    ids, sizes : (B,) of the bags, as they first appear.
    y : (B,) labels, or None.
    classes : of the labels; None without any.
    feature_names : D names, or None when the file has none.
    n_features, n_chunks, dtype : D, how many chunks there are, and the kind of numbers.
    grouped : whether the file says that its rows come bag after bag.
    """

    ids: Array
    sizes: Array
    y: NDArray[np.int64] | None
    classes: Classes | None
    feature_names: tuple[str, ...] | None
    n_features: int
    n_chunks: int
    dtype: np.dtype[Any]
    grouped: bool

    def rows(self) -> Iterator[Rows]:
        """All rows, in the order of the file."""


def in_memory(source: Source) -> BagTable:
    """All chunks of a file as one table.

    Examples
    --------
    >>> import pandas as pd
    >>> from psimil.data.tabular import Table
    >>> frame = pd.DataFrame({"bag": [2, 1, 2], "label": [1, 0, 1], "f": [0.5, 0.25, 1.0]})
    >>> table = in_memory(Table(lambda: iter([frame]), "the table"))
    >>> table.bags.X.tolist(), table.y.tolist(), table.bags.rows.tolist()
    ([[0.5], [1.0], [0.25]], [1, 0], [0, 2, 1])
    """
    offsets = np.concatenate([[0], np.cumsum(source.sizes)])
    X = np.empty((offsets[-1], source.n_features), source.dtype)
    chunks = []
    for chunk in source.rows():
        X[chunk.places] = chunk.X
        chunks.append(chunk._replace(X=chunk.X[:0]))
    rows = np.empty(len(X), dtype=np.int64)
    rows[np.concatenate([chunk.places for chunk in chunks])] = np.arange(len(X))
    bags = replace(Bags(X, offsets, source.ids, None if source.grouped else rows), feature_names=source.feature_names)
    positions = _joined([chunk.positions for chunk in chunks])
    if positions is not None:
        along = positions[bags.rows]
        if len(along) > len(bags) and (along == np.repeat(along[offsets[:-1]], bags.sizes)).all():
            raise InputError(
                "each bag has one position throughout, which orders nothing. Name another column, or none."
            )
        bags = bags.in_order(positions)
    known = _joined([chunk.known for chunk in chunks])
    return BagTable(
        bags,
        source.y,
        known if known is None or bags.rows is None else known[bags.rows],
        source.classes or ZERO_ONE,
        None if positions is None else positions[bags.rows],
    )


def _joined(pieces: list[Array | None]) -> Array | None:
    present = [piece for piece in pieces if piece is not None]
    return np.concatenate(present) if present else None
