"""What the viewer shows: one result set under keys that mean nothing, its feedback, its scans and pictures."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from psimil.report.pictures import encode_png
from psimil.results.result_set import ResultSet
from psimil.viewer.feedback_store import FeedbackStore
from psimil.viewer.volumes import Volumes

if TYPE_CHECKING:
    from psimil.ct.dicom.headers import Header

COLUMNS = 16  # of a sprite


class ViewerState:
    """A result set with a random key per bag, new at every start; routes take keys and never ids or paths.

    Parameters
    ----------
    results : B bags.
    feedback : what readers said about them.
    volumes : scans in Hounsfield units, when there are any.
    show_ids : name bags by their ids; those of scans are hashes and always shown.
    """

    def __init__(
        self, results: ResultSet, feedback: FeedbackStore, volumes: Volumes | None = None, *, show_ids: bool = False
    ) -> None:
        self.results, self.feedback, self.volumes = results, feedback, volumes
        self.keys = tuple(secrets.token_urlsafe(9) for _ in range(len(results)))
        self.ids = tuple(str(identifier) for identifier in results.prediction.ids)
        plain = show_ids or results.kind == "ct"
        self.names = self.ids if plain else tuple(f"bag {number}" for number in range(1, len(results) + 1))
        self.numbers = {key: number for number, key in enumerate(self.keys)}

    def header(self, number: int) -> Header | None:
        """Header of the slices in Hounsfield units of a bag, or None when there are none."""
        return None if self.volumes is None else self.volumes.header(self.results.series[number])

    def orientation(self, number: int) -> Sequence[float] | None:
        """(6,) ImageOrientationPatient of what is shown of a scan: of its files where they are at hand."""
        header = self.header(number)
        return self.results.orientation_of(number) if header is None else header.orientation

    def slice(self, number: int, index: int) -> NDArray[np.int16] | None:
        """(rows, columns) Hounsfield units of one slice of a bag, or None when there are none."""
        positions, series = self.results.positions, self.results.series[number]
        if self.volumes is None or positions is None or self.header(number) is None:
            return None
        return self.volumes.slice(series, positions[self.results.instances_of(number)], index)

    def sprite(self, number: int) -> bytes | None:
        """All thumbnails of a bag in one PNG picture, ``COLUMNS`` in a row, or None when there are none."""
        images = self.results.images
        return None if images is None else encode_png(grid(images[self.results.instances_of(number)]))

    def has_heat(self, number: int) -> bool:
        """Whether there is a heat map of at least one instance of a bag."""
        heat = self.results.heat
        return heat is not None and bool(heat[self.results.instances_of(number)].any())

    def heat(self, number: int) -> bytes | None:
        """The heat maps of a bag as :meth:`sprite` has its thumbnails."""
        heat = self.results.heat
        return None if heat is None else encode_png(grid(heat[self.results.instances_of(number)]))


def grid(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Pictures (n, h, w) side by side in rows of ``COLUMNS``; what is left of the last row is black.

    Examples
    --------
    >>> grid(np.ones((17, 2, 3), np.uint8)).shape
    (4, 48)
    """
    n, height, width = images.shape
    rows = -(-n // COLUMNS)
    cells = np.zeros((rows * COLUMNS, height, width), np.uint8)
    cells[:n] = images
    return cells.reshape(rows, COLUMNS, height, width).swapaxes(1, 2).reshape(rows * height, COLUMNS * width)
