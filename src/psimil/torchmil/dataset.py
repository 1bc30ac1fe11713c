"""Bags as a torchmil dataset, and a torchmil dataset as bags. Needs torchmil."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torchmil.datasets import ProcessedMILDataset

from psimil.datasets.labelled import LabelledBags, OneBag, check_bags, coordinates, labelled, together
from psimil.foundations.arrays import Array
from psimil.model.bags import Bags

NEAR = 1.5  # coordinates that are at most so far apart are neighbours


class BagDataset(ProcessedMILDataset):
    """Bags in memory as a ``torchmil.datasets.ProcessedMILDataset``, in their own order.

    An item is a TensorDict with ``X`` (n, D) and ``Y``; with ``y_inst`` (n,) where labels of instances are given; and
    with ``coords`` (n, k) and the sparse ``adj`` (n, n) where there are coordinates, or bags have an order.

    Parameters
    ----------
    bags : B bags, N instances; those of :meth:`psimil.Bags.in_order` have neighbours, but not across gaps.
    y : (B,) 0 or 1; None leaves ``Y`` out.
    y_instances : (N,) 0, 1, or -1 for unknown; None leaves ``y_inst`` out.
    coords : (N, k) of the instances, 1 apart where they are neighbours; None takes the order of the bags.
    dtype : of ``X``.

    Examples
    --------
    >>> bags = Bags.from_list([[[1.0], [2.0]], [[3.0]]], ids=["b", "a"])
    >>> data = BagDataset(bags, [1, 0])
    >>> len(data), data.get_bag_names(), data[0]["X"].tolist(), data[0]["Y"].item()
    (2, ['b', 'a'], [[1.0], [2.0]], 1)
    """

    def __init__(
        self,
        bags: Bags,
        y: ArrayLike | None = None,
        y_instances: ArrayLike | None = None,
        *,
        coords: ArrayLike | None = None,
        dtype: str = "float32",
    ) -> None:
        check_bags(bags)
        names = [str(name) for name in bags.names]
        _, T, known = labelled(bags, np.zeros(len(bags)) if y is None else y, y_instances)
        columns: dict[str, Any] = {"X": bags.split(np.asarray(bags.X[:], dtype=dtype))}
        if y is not None:
            columns["Y"] = [np.array(label) for label in T]
        if y_instances is not None:
            columns["y_inst"] = bags.split(known)
        if coords is not None:
            columns["coords"] = coordinates(coords, bags, "k")
        elif bags.links is not None:
            columns["coords"] = [_along(links) for links in bags.split(bags.links)]
        self._bags = {name: {key: columns[key][b] for key in columns} for b, name in enumerate(names)}
        keys = [*columns, *(["adj"] if "coords" in columns else [])]
        paths = dict.fromkeys(("features_path", "labels_path", "inst_labels_path", "coords_path"), "")
        super().__init__(**paths, bag_names=names, bag_keys=keys, dist_thr=NEAR, verbose=False)
        self.bag_names = names  # which torchmil sorts

    def _build_bag(self, name: str) -> dict[str, Any]:
        checked: Any = torch.sparse.check_sparse_tensor_invariants
        with checked(True):  # torch warns of adj where nobody says
            bag: dict[str, Any] = super()._build_bag(name)
        return bag

    def _load_bag(self, name: str) -> dict[str, Any]:
        return dict(self._bags[name])

    def _load_labels(self, name: str) -> Array:
        return np.asarray(self._bags[name]["Y"])


def bags_of(dataset: Any) -> LabelledBags:
    """The bags of a torchmil dataset, or of any other whose items have ``X`` (n, D), ``Y`` and maybe ``y_inst``.

    Parameters
    ----------
    dataset : has a length and items; bags are called as it calls them, or by their number.

    Returns
    -------
    data : bags in the order of the items, y (B,), y_instances (N,), -1 where unknown.

    Examples
    --------
    >>> data = bags_of(BagDataset(Bags.from_list([[[1.0], [2.0]], [[3.0]]]), [1, 0], [0, 1, 0]))
    >>> data.y.tolist(), data.y_instances.tolist()
    ([1, 0], [0, 1, 0])
    """
    names = dataset.get_bag_names() if hasattr(dataset, "get_bag_names") else range(len(dataset))
    bags = []
    for number, name in enumerate(names):
        item = dataset[number]
        known = item["y_inst"].numpy().ravel() if "y_inst" in item.keys() else None
        bags.append(OneBag(str(name), item["X"].numpy(), item["Y"].item(), known))
    return together(bags)


def _along(links: Array) -> NDArray[np.int64]:
    """(n, 1) coordinates: 1 from each instance to the one that it is linked to, 2 across a gap."""
    steps = np.where(links[:-1] > 0, 1, 2)
    return np.concatenate([[0], np.cumsum(steps)])[:, None]
