"""Results of slides for other tools: what they say is what the prediction says, where the patches lie."""

import json

import numpy as np
import pytest

from psimil.data.bagtable import Slide
from psimil.model.labels import Classes
from psimil.results.slide_results import bag_of, geojson, slide_table, write_slide
from small_results import small_model

h5py = pytest.importorskip("h5py")


@pytest.fixture(scope="module")
def predicted():
    """A prediction, and the slide that is its third bag."""
    estimator, bags, _, _ = small_model()
    n = int(bags.sizes[2])
    coords = np.column_stack([np.arange(n) * 512, np.full(n, 1024)])
    attributes = {"patch_size": np.array(256), "patch_size_level0": np.array(512)}
    return estimator.predict_dist(bags), Slide("s2", int(bags.offsets[2]), coords, attributes)


def test_the_file_has_the_numbers_beside_coords(predicted, tmp_path):
    found, slide = predicted
    write_slide(tmp_path, found, slide)
    with h5py.File(tmp_path / "s2.h5") as file:
        assert sorted(file) == ["coords", "label", "lower", "novelty", "prob", "std", "upper"]
        np.testing.assert_array_equal(file["coords"], slide.coords)
        assert dict(file["coords"].attrs) == {"patch_size": 256, "patch_size_level0": 512}
        for name in ("prob", "std", "lower", "upper", "novelty", "label"):
            np.testing.assert_array_equal(file[name], getattr(found, f"instance_{name}")[slide.rows])
        said = dict(file.attrs)
    assert said["bag_prob"] == found.prob[2]
    assert said["bag_novelty"] == found.novelty[2]
    assert said["instance_threshold"] == found.instance_threshold


def test_shapes_are_those_that_qupath_imports(predicted, tmp_path):
    found, slide = predicted
    write_slide(tmp_path, found, slide, Classes("normal", "tumor"))
    shapes = json.loads((tmp_path / "s2.geojson").read_text())
    assert shapes["type"] == "FeatureCollection"
    assert len(shapes["features"]) == len(slide.coords)
    for patch, shape in enumerate(shapes["features"]):
        row = slide.start + patch
        assert shape["type"] == "Feature"
        assert shape["properties"]["objectType"] == "tile"
        assert shape["properties"]["classification"]["name"] == ("normal", "tumor")[found.instance_label[row]]
        assert shape["properties"]["measurements"] == {
            "Probability": found.instance_prob[row],
            "Standard deviation": found.instance_std[row],
            "Novelty": found.instance_novelty[row],
        }
        (ring,) = shape["geometry"]["coordinates"]
        assert ring[0] == ring[-1] == slide.coords[patch].tolist()
        assert np.ptp(ring, axis=0).tolist() == [512, 512]
    assert {one["properties"]["classification"]["name"] for one in geojson(found, slide)["features"]} <= {
        "Positive",
        "Negative",
    }


def test_bags_of_slides(predicted):
    found, slide = predicted
    assert bag_of(found, slide) == 2
    assert bag_of(found, slide._replace(start=slide.start + 1)) == 2  # the second slide of a patient
    assert bag_of(found, slide._replace(start=0)) == 0
    assert bag_of(found, slide._replace(start=int(found.offsets[-1]) - 1)) == len(found.ids) - 1
    assert slide_table(found, slide)["x"].tolist() == slide.coords[:, 0].tolist()


def test_a_lone_patch_has_a_size():
    assert Slide("s", 0, np.zeros((1, 2)), {}).side == 256.0
    assert Slide("s", 0, np.zeros((1, 2)), {"patch_size": np.array(np.nan)}).side == 256.0
