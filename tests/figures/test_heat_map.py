"""Heat maps of slides: every patch where it lies, in the colour of its probability."""

from dataclasses import replace

import numpy as np
import pytest

from psimil.data.bagtable import Slide
from psimil.figures import new_figure, plot_slide
from psimil.figures.heat_map import PIXELS, raster
from psimil.results.slide_results import geojson
from small_results import small_model


@pytest.fixture(scope="module")
def predicted():
    estimator, bags, _, _ = small_model()
    n = int(bags.sizes[2])
    return estimator.predict_dist(bags), Slide("s2", int(bags.offsets[2]), np.arange(2 * n).reshape(n, 2) * 256, {})


def test_patches_have_the_colour_of_their_probability(predicted):
    found, slide = predicted
    ax = plot_slide(found, slide, ax=new_figure())
    picture, (left, right, bottom, top) = ax.images[0].get_array(), ax.images[0].get_extent()
    assert ax.images[0].get_clim() == (0.0, 1.0)
    for (x, y), prob in zip(slide.coords + slide.side / 2, found.instance_prob[slide.rows], strict=True):
        row = int((y - top) / (bottom - top) * picture.shape[0])
        column = int((x - left) / (right - left) * picture.shape[1])
        assert picture[row, column] == prob
    assert np.ma.count_masked(np.ma.masked_invalid(picture)) > 0  # between patches there is nothing
    assert (
        ax.get_title().replace("\n", " ") == f"Slide s2 of bag 2: probability {found.prob[2]:.3f} ± {found.std[2]:.3f}"
    )


def test_patches_unlike_the_training_data_are_marked(predicted):
    found, slide = predicted
    novelty = np.zeros(int(found.offsets[-1]))
    assert not plot_slide(replace(found, instance_novelty=novelty), slide, ax=new_figure()).lines
    novelty[slide.start + 1] = 0.9
    (crosses,) = plot_slide(replace(found, instance_novelty=novelty), slide, ax=new_figure()).lines
    assert crosses.get_xydata().tolist() == [(slide.coords[1] + slide.side / 2).tolist()]


def test_patches_that_overlap_are_averaged():
    picture, _ = raster(np.array([[0, 0], [4, 0]]), 8.0, np.array([0.0, 1.0]))
    assert picture[0].tolist() == [0.0] * 4 + [0.5] * 4 + [1.0] * 4


@pytest.mark.parametrize("step", [1, 3, 1000])
def test_large_slides_make_pictures_of_one_size(step):
    coords = np.array([[0, 0], [100_000 * step, 5], [7, 60_000 * step]])
    picture, extent = raster(coords, 256.0, np.array([0.1, 0.2, 0.3]))
    assert max(picture.shape) == PIXELS
    assert sorted(set(picture[~np.isnan(picture)])) == [0.1, 0.2, 0.3]
    assert extent[1] >= 100_000 * step


@pytest.mark.parametrize(
    ("coords", "attributes", "side"),
    [
        ([[512, 0]], {}, 256.0),
        ([[512, 0]] * 3, {}, 256.0),
        ([[512, 0]], {"patch_size": np.array(224), "downsample": np.array([2.0, 2.0])}, 448.0),
        ([[512, 0]], {"patch_size_level0": np.array(0), "patch_size": np.array(128)}, 128.0),
        ([[512, 0]], {"patch_size": np.array(np.nan)}, 256.0),
        ([[0, 0], [512, 0], [0, 512], [513, 512]], {}, 512.0),  # a contour that begins one pixel further
    ],
)
def test_a_patch_has_the_size_that_is_known_or_the_usual_one(predicted, coords, attributes, side):
    found, slide = predicted
    few = slide._replace(coords=np.array(coords), attributes=attributes)
    assert few.side == side
    image = plot_slide(found, few, ax=new_figure()).images[0]
    assert min(image.get_array().shape) >= 8 and image.get_extent()[1] - image.get_extent()[0] >= side
    square = np.array(geojson(found, few)["features"][0]["geometry"]["coordinates"][0])
    assert np.ptp(square, axis=0).tolist() == [side, side]
