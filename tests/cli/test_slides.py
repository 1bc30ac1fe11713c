"""Folders of slides on the command line: patients or slides are bags, and what is predicted goes back to its place."""

import json

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from commands import QUICK, call, fails
from psimil import Bags, datasets
from psimil.cli import predicted

h5py = pytest.importorskip("h5py")
CLASSES = ("normal_tissue", "tumor_tissue")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Sixteen slides of eight patients with CLAM's table, and a model of the slides."""
    folder = tmp_path_factory.mktemp("slides")
    bags, y, _ = datasets.make_bags(n_bags=16, bag_size=(6, 6), n_features=4, separation=4.0, seed=0)
    corners = np.tile([[x * 256, y * 256] for x in range(3) for y in range(2)], (16, 1))
    names = [f"slide.{n}" for n in range(16)]
    datasets.write_h5(folder / "slides", Bags.from_list(list(bags), ids=names), coords=corners)
    rows = [f"patient_{n // 2},{name},{CLASSES[y[n]]}" for n, name in enumerate(names)]
    (folder / "slides" / "dataset.csv").write_text("\n".join(["case_id,slide_id,label", *rows]) + "\n")
    done = call("fit", folder / "slides", "--positive", "tumor_tissue", "--out", folder / "run", *QUICK)
    assert done.exit_code == 0, done.output
    return folder


def test_what_is_predicted_lies_beside_coords(folder, tmp_path, monkeypatch):
    for rows in (1 << 16, 20):
        monkeypatch.setattr(predicted, "RANGE_ROWS", rows)
        done = call("predict", folder / "run", folder / "slides", "--out", tmp_path / "new", "--overwrite")
        assert done.exit_code == 0, done.output
        assert f"16 slides (.h5, .geojson, .png) are in {tmp_path / 'new' / 'slides'}." in done.output.replace("\n", "")
        made = tmp_path / "new" / "slides"
        assert {path.suffix for path in made.iterdir()} == {".h5", ".geojson", ".png", ".pdf", ".csv"}
        table = pd.read_csv(tmp_path / "new" / "instances.csv")
        for name, patches in table.groupby("bag"):
            with h5py.File(made / f"{name}.h5") as file:
                np.testing.assert_allclose(file["prob"], patches["prob"], rtol=1e-12)
                with h5py.File(folder / "slides" / f"{name}.h5") as given:
                    np.testing.assert_array_equal(file["coords"], given["coords"])
            shapes = json.loads((made / f"{name}.geojson").read_text())["features"]
            assert {one["properties"]["classification"]["name"] for one in shapes} <= set(CLASSES)
        assert len(table.groupby("bag")) == 16


def test_slides_that_the_table_does_not_list_are_not_left_out_silently(folder, tmp_path):
    for path in (folder / "slides").iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    rows = (tmp_path / "dataset.csv").read_text().splitlines()
    (tmp_path / "dataset.csv").write_text("\n".join(rows[:-1]) + "\n")
    done = call("predict", folder / "run", tmp_path, "--out", tmp_path / "new", "--json")
    assert json.loads(done.stdout)["bags"] == 15
    assert "1 of 16 slides are not in the table of the folder and are left out" in " ".join(done.stderr.split())


def test_a_patient_is_a_bag(folder, tmp_path):
    done = call(
        "fit", folder / "slides", "--bag", "case_id", "--positive", "tumor_tissue", "--out", tmp_path / "run", *QUICK
    )
    assert done.exit_code == 0, done.output
    done = call("predict", tmp_path / "run", folder / "slides", "--bag", "case_id", "--out", tmp_path / "new", "--json")
    assert json.loads(done.stdout)["bags"] == 8
    assert len(list((tmp_path / "new" / "slides").glob("*.h5"))) == 16
    assert pd.read_csv(tmp_path / "new" / "bags.csv")["bag"].tolist() == [f"patient_{n}" for n in range(8)]


def test_heat_maps_are_drawn(folder, tmp_path):
    (tmp_path / "slides").mkdir()
    (tmp_path / "slides" / "one.h5").write_bytes((folder / "slides" / "slide.3.h5").read_bytes())
    done = call("predict", folder / "run", tmp_path / "slides", "--out", tmp_path / "new", drawn=True)
    assert done.exit_code == 0, done.output
    with Image.open(tmp_path / "new" / "slides" / "one.png") as picture:
        assert picture.size == (900, 600)


def test_slides_without_coords_and_folders_of_nothing(folder, tmp_path):
    datasets.write_h5(tmp_path / "slides", Bags.from_list([np.ones((2, 4))], ids=["a"]))
    done = call("predict", folder / "run", tmp_path / "slides", "--out", tmp_path / "new")
    assert done.exit_code == 0, done.output
    assert not (tmp_path / "new" / "slides").exists()
    (tmp_path / "empty").mkdir()
    done = call("fit", tmp_path / "empty", "--out", tmp_path / "run")
    fails(done, 65, "empty is a directory. Name a file, a torchmil folder")
    fails(call("evaluate", folder / "run", tmp_path / "slides"), 65, "slides has no bag labels")


def test_a_model_of_patients_judges_patients(folder, tmp_path):
    columns = ["--bag", "case_id", "--positive", "tumor_tissue"]
    run = tmp_path / "patients"
    assert call("fit", folder / "slides", *columns, "--out", run, *QUICK).exit_code == 0
    done = call("predict", run, folder / "slides", "--out", tmp_path / "new", "--json")
    assert json.loads(done.stdout)["bags"] == 8
    assert json.loads(call("evaluate", run, folder / "slides", "--json").stdout)["n_bags"] == 8
    assert json.loads(call("info", run, "--json").stdout)["bag_column"] == "case_id"
    assert call("export", run, tmp_path / "hub").exit_code == 0  # a model by itself remembers, too
    done = call("predict", tmp_path / "hub", folder / "slides", "--out", tmp_path / "again", "--json")
    assert json.loads(done.stdout)["bags"] == 8
    each = ["--bag", "slide_id", "--out", tmp_path / "slides", "--json"]
    assert json.loads(call("predict", run, folder / "slides", *each).stdout)["bags"] == 16
    settings = ["--config", run / "config.toml", "--out", tmp_path / "same"]
    assert json.loads(call("fit", folder / "slides", *settings, "--json").stdout)["training"]["bags"] == 8


def test_slides_without_the_column_of_the_bags_are_refused(folder, tmp_path):
    columns = ["--bag", "case_id", "--positive", "tumor_tissue"]
    assert call("fit", folder / "slides", *columns, "--out", tmp_path / "run", *QUICK).exit_code == 0
    (tmp_path / "slides").mkdir()
    for path in (folder / "slides").glob("*.h5"):
        (tmp_path / "slides" / path.name).write_bytes(path.read_bytes())
    given = [tmp_path / "run", tmp_path / "slides"]
    said = ("case_id", 'made by "case_id": add this column, or name another with --bag; --bag slide_id')
    fails(call("predict", *given, "--out", tmp_path / "new"), 65, *said)
    table = pd.read_csv(folder / "slides" / "dataset.csv").drop(columns="case_id")
    table.to_csv(tmp_path / "slides" / "dataset.csv", index=False)
    fails(call("evaluate", *given), 65, *said)
    assert call("evaluate", *given, "--bag", "slide_id").exit_code == 0


def test_an_import_says_that_a_store_has_no_coords(folder, tmp_path):
    given = [folder / "slides", tmp_path / "store", "--positive", "tumor_tissue"]
    done = call("data", "import", *given)
    assert done.exit_code == 0, done.output
    said = " ".join(done.stderr.split())
    assert "a store has no coords, those of 16 slides are not kept: predictions of it have no heat maps" in said
    assert "psimil predict RUN SLIDES, with the folder, writes them" in said
    done = call("predict", folder / "run", tmp_path / "store", "--out", tmp_path / "tables", "--json")
    assert json.loads(done.stdout)["bags"] == 16 and not (tmp_path / "tables" / "slides").exists()
    datasets.write_h5(tmp_path / "plain", Bags.from_list([np.ones((2, 4))], ids=["a"]))
    (tmp_path / "plain" / "t.csv").write_text("slide_id,label\na,1\n")
    assert call("data", "import", tmp_path / "plain", tmp_path / "other").stderr == ""


def test_a_store_of_patients_remembers_that_they_are_patients(folder, tmp_path):
    given = [folder / "slides", tmp_path / "store", "--positive", "tumor_tissue"]
    assert call("data", "import", *given, "--bag", "case_id").exit_code == 0
    done = call("fit", tmp_path / "store", "--out", tmp_path / "run", *QUICK)
    assert done.exit_code == 0, done.output
    done = call("predict", tmp_path / "run", folder / "slides", "--out", tmp_path / "new", "--json")
    assert json.loads(done.stdout)["bags"] == 8
    done = call("predict", tmp_path / "run", tmp_path / "store", "--out", tmp_path / "tables", "--json")
    assert json.loads(done.stdout)["bags"] == 8
