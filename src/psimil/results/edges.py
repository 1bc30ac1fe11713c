"""Which side of the patient is at each edge of a picture: the letters that a reader needs to tell right from left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

TOWARDS, AWAY = "LPH", "RAF"  # x grows to the left, y to the back, z to the head of the patient
SLIGHT = 0.1  # cosine below which a direction does not lean to a side; 6 degrees


class Edges(NamedTuple):
    """Letters at the edges of a picture: A and P, R and L, H and F; two or three where the picture is oblique.

    Examples
    --------
    >>> Edges("R", "L", "A", "P").words
    'left edge R, right edge L, top A, bottom P'
    """

    left: str
    right: str
    top: str
    bottom: str

    @classmethod
    def of(cls, orientation: Sequence[float] | None) -> Edges | None:
        """From the six cosines of ImageOrientationPatient; None where they are missing or span no plane.

        Parameters
        ----------
        orientation : (6,) direction of the rows, from left to right, then of the columns, from top to bottom, in the
            patient's coordinates.

        Examples
        --------
        >>> Edges.of((1, 0, 0, 0, 1, 0))
        Edges(left='R', right='L', top='A', bottom='P')
        >>> Edges.of((-1, 0, 0, 0, 0.87, -0.5)), Edges.of((0, 0, 0, 0, 0, 0)), Edges.of(None)
        (Edges(left='L', right='R', top='AH', bottom='PF'), None, None)
        """
        if orientation is None or len(orientation) != 6:
            return None
        across, down = np.asarray(orientation, dtype=np.float64).reshape(2, 3)
        area = float(np.linalg.norm(np.cross(across, down)))
        if not all(0.9 < size < 1.1 for size in (np.linalg.norm(across), np.linalg.norm(down), area)):
            return None
        return cls(_letters(-across), _letters(across), _letters(-down), _letters(down))

    @property
    def words(self) -> str:
        """The letters in a sentence's part."""
        return f"left edge {self.left}, right edge {self.right}, top {self.top}, bottom {self.bottom}"


def ends(orientation: Sequence[float] | None) -> tuple[str, str]:
    """Where slices in order begin and end in the patient: they ascend along the axis that their normal is nearest to.

    Examples
    --------
    >>> ends((1, 0, 0, 0, 1, 0)), ends((0, 1, 0, 0, 0, -1)), ends(None)
    (('feet', 'head'), ('right', 'left'), ('first', 'last'))
    """
    if orientation is None or Edges.of(orientation) is None:
        return ("first", "last")
    normal = np.cross(orientation[:3], orientation[3:])
    return (("right", "left"), ("front", "back"), ("feet", "head"))[int(np.argmax(np.abs(normal)))]


def edge_words(edges: Edges | None) -> str:
    """What is said beside pictures too small for letters.

    Examples
    --------
    >>> edge_words(None)
    'orientation unknown'
    """
    return "orientation unknown" if edges is None else edges.words


def _letters(direction: NDArray[np.float64]) -> str:
    """The sides that a direction leads to, the nearest first."""
    nearest = np.argsort(-np.abs(direction), kind="stable")
    letters = [(TOWARDS if direction[axis] > 0 else AWAY)[axis] for axis in nearest if abs(direction[axis]) >= SLIGHT]
    return "".join(letters)
