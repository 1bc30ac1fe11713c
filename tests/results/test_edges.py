"""The letters at the edges of a picture: right for every way that rows and columns can lie, silent where unknown."""

from itertools import product

import numpy as np
import pytest

from psimil.results.edges import Edges, edge_words, ends

SIDES = {"L": (1, 0, 0), "R": (-1, 0, 0), "P": (0, 1, 0), "A": (0, -1, 0), "H": (0, 0, 1), "F": (0, 0, -1)}
OPPOSITE = dict(zip("LRPAHF", "RLAPFH", strict=True))
PLANES = [
    (right, bottom) for right, bottom in product(SIDES, SIDES) if bottom not in (right, OPPOSITE[right])
]  # all 24 ways in which a picture can lie along the axes of the patient


@pytest.mark.parametrize(("right", "bottom"), PLANES)
def test_every_way_along_the_axes_has_its_letters(right, bottom):
    found = Edges.of((*SIDES[right], *SIDES[bottom]))
    assert found == Edges(OPPOSITE[right], right, OPPOSITE[bottom], bottom)


@pytest.mark.parametrize("angle", [1, 5, 7, 20, 44, 46, 70, 84, 88])
def test_a_tilted_gantry_says_where_the_edges_lean_to(angle):
    cosine, sine = np.cos(np.radians(angle)), np.sin(np.radians(angle))
    near = "P" if cosine >= 0.1 else ""
    far = "F" if sine >= 0.1 else ""
    bottom = near + far if angle < 45 else far + near
    assert Edges.of((1, 0, 0, 0, cosine, -sine)) == Edges("R", "L", bottom.translate(str.maketrans(OPPOSITE)), bottom)


def test_the_first_letter_is_the_nearest_side_of_any_plane():
    rng = np.random.default_rng(0)
    for _ in range(300):
        across, down = np.linalg.qr(rng.normal(size=(3, 2)))[0].T
        found = Edges.of((*across, *down))
        for letters, direction in (
            (found.right, across),
            (found.left, -across),
            (found.bottom, down),
            (found.top, -down),
        ):
            along = {letter: float(np.dot(SIDES[letter], direction)) for letter in SIDES}
            assert letters[0] == max(along, key=along.get)
            assert set(letters) == {letter for letter, cosine in along.items() if cosine >= 0.1}


@pytest.mark.parametrize(
    "unknown",
    [None, (), (1, 0, 0), (0,) * 6, (1, 0, 0, 1, 0, 0), (1, 0, 0, 0, 0, 0), (2, 0, 0, 0, 0.5, 0), (np.nan,) * 6],
)
def test_what_spans_no_plane_is_unknown(unknown):
    assert Edges.of(unknown) is None and ends(unknown) == ("first", "last")
    assert edge_words(Edges.of(unknown)) == "orientation unknown"


@pytest.mark.parametrize(
    ("orientation", "expected"),
    [
        ((1, 0, 0, 0, 1, 0), ("feet", "head")),
        ((-1, 0, 0, 0, 1, 0), ("feet", "head")),  # slices ascend to the head however they are turned
        ((1, 0, 0, 0, 0, -1), ("front", "back")),
        ((0, 1, 0, 0, 0, -1), ("right", "left")),
    ],
)
def test_the_ends_are_those_that_the_slices_ascend_to(orientation, expected):
    from psimil.ct.scans.geometry import normal_of

    assert ends(orientation) == expected
    axis = {"head": 2, "back": 1, "left": 0}[expected[1]]
    assert normal_of(orientation)[axis] > 0.99  # the order of psimil.ct.scans.geometry.arrange
