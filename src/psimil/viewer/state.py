"""What the viewer shows: one result set under keys that mean nothing, its feedback and its scans."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.results.result_set import ResultSet
from psimil.viewer.feedback_store import FeedbackStore
from psimil.viewer.volumes import Volumes


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
        self._numbers = {key: number for number, key in enumerate(self.keys)}

    def number(self, key: str) -> int | None:
        """Number of the bag with this key."""
        return self._numbers.get(key)

    def called(self, number: int, instance: int | None = None) -> int:
        """What the model calls a bag, or one of its instances: 0 or 1."""
        label: int = self.results.estimate(number, instance)["label"]
        return label

    def shape(self, number: int) -> tuple[int, int] | None:
        """Rows and columns of the slices in Hounsfield units, or None when there are none."""
        series = self.results.series[number]
        return self.volumes.shape(series) if self.volumes is not None and series else None

    def spacing(self, number: int) -> tuple[float, float] | None:
        """Millimetres between rows and columns of the slices in Hounsfield units, or None when they are unknown."""
        return None if self.volumes is None else self.volumes.spacing(self.results.series[number])

    def orientation(self, number: int) -> Sequence[float] | None:
        """(6,) ImageOrientationPatient of what is shown of a scan: of its files where they are at hand."""
        if self.volumes is None or self.shape(number) is None:
            return self.results.orientation_of(number)
        return self.volumes.orientation(self.results.series[number])

    def slice(self, number: int, index: int) -> NDArray[np.int16] | None:
        """(rows, columns) Hounsfield units of one slice of a bag, or None when there are none."""
        positions: NDArray[Any] | None = self.results.positions
        if self.volumes is None or positions is None or self.shape(number) is None:
            return None
        return self.volumes.slice(self.results.series[number], positions[self.results.instances_of(number)], index)
