"""The order of instances in their bags, such as slices of a scan, and where it has gaps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.errors import InputError
from psimil.model.features import as_real

if TYPE_CHECKING:
    from psimil.model.bags import Bags

Array = NDArray[Any]

GAP = 1.5  # times the usual step between neighbours: something is missing where it is larger


def linked(offsets: Array, positions: Array | None = None) -> tuple[Array, Array]:
    """(N,) rows of each bag by position, and (N,) links: 1 from each to the next, 0 at gaps and at the last of a bag.

    Parameters
    ----------
    offsets : (B + 1,) first row of each bag.
    positions : (N,) along each bag, in any unit; None where rows are in order and nothing is missing.

    Examples
    --------
    >>> linked(np.array([0, 3, 5]))[1]
    array([1., 1., 0., 1., 0.])
    >>> linked(np.array([0, 4]), np.array([0.0, 9.0, 2.0, 1.0]))
    (array([0, 3, 2, 1]), array([1., 1., 0., 0.]))
    """
    links = np.ones(int(offsets[-1]))
    links[offsets[1:] - 1] = 0.0
    order = np.arange(len(links))
    if positions is not None:
        positions = as_real(positions, "positions")
        if positions.shape != links.shape or not np.isfinite(positions).all():
            raise InputError("positions must be finite numbers, one for each instance.")
        bag = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        order = np.lexsort((positions, bag))
        steps = np.diff(positions[order], append=0.0)
        for a, b in zip(offsets[:-1], offsets[1:] - 1, strict=True):  # a .. b - 1 have a next one
            own = steps[a:b]
            links[a:b] = own <= GAP * np.median(own[own > 0]) if (own > 0).any() else 1.0
    return order, links


def links_of(bags: Bags) -> Array:
    """(N,) links of bags; those that say nothing are in the order of their rows."""
    return linked(bags.offsets)[1] if bags.links is None else bags.links


def checked_links(links: Any, offsets: Array) -> Array | None:
    """Links (N,) as numbers, once they are of these bags; None for None.

    Examples
    --------
    >>> checked_links([1.0, 1.0], np.array([0, 2]))
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: links must be 0 at the last instance of each bag.
    """
    if links is None:
        return None
    found = as_real(links, "links")
    if found.shape != (int(offsets[-1]),) or not np.isfinite(found).all() or (found < 0).any():
        raise InputError(f"links must be {int(offsets[-1])} numbers that are not negative, one for each instance.")
    if found[offsets[1:] - 1].any():
        raise InputError("links must be 0 at the last instance of each bag.")
    return found
