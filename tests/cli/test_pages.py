"""The sh blocks of pages on data sets: every psimil line, in order, on small data under the names of the page."""

import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from commands import ROOT, call
from psimil import Bags, datasets
from psimil.cli.view import _viewed

BLOCK = re.compile(r"^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)


def run(page):
    """The results of the lines of a page in this folder; what would be shown in a browser is opened and not served."""
    text = (ROOT / "docs" / "how-to" / page).read_text(encoding="utf-8")
    lines = [line for block in BLOCK.findall(text) for line in block.splitlines() if line]
    results = {}
    for line in lines:
        program, *words = shlex.split(line, comments=True)
        if program != "psimil":
            assert program == "pip"
        elif words[0] == "view":
            assert len(_viewed(Path(words[1]), None, show_ids=False).results) > 0
        else:
            done = call(*words)
            assert done.exit_code == 0, f"{line}\n{done.output}"
            results[shlex.join(words)] = done
    return results


def scans(folder):
    """A folder as torchmil publishes RSNA_ICH_MIL, with the splits train, val and test."""
    bags, y, y_slices = datasets.make_bags(n_bags=48, n_features=8, separation=3.0, seed=0)
    split = np.repeat(["train", "val", "test"], [24, 8, 16]).tolist()
    how = {"split": split, "features": "resnet50", "instance_labels": "slice_labels"}
    datasets.write_torchmil(folder, bags, y, y_slices, **how)


def slides(folder, seed, labels):
    """Slides of two for each patient, with the dataset CSV of CLAM among them."""
    bags, y, _ = datasets.make_bags(n_bags=24, bag_size=(12, 12), n_features=6, separation=4.0, seed=seed)
    names = [f"slide_{n}" for n in range(24)]
    corners = np.tile([[x * 256, y * 256] for x in range(4) for y in range(3)], (24, 1))
    datasets.write_h5(folder, Bags.from_list(list(bags), ids=names), coords=corners)
    table = pd.DataFrame({"case_id": [f"patient_{n // 2}" for n in range(24)], "slide_id": names})
    if labels:
        table["label"] = np.where(y == 1, "tumor_tissue", "normal_tissue")
    table.to_csv(Path(folder) / "dataset.csv", index=False)


def test_the_page_on_torchmil_runs_as_it_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scans("RSNA_ICH_MIL")
    done = run("torchmil.md")
    assert [command.split()[0] for command in done] == ["fit", "evaluate", "predict", "data"]
    assert len(pd.read_csv("runs/test/bags.csv")) == 16
    assert len(pd.read_csv("runs/ich/bags.csv")) == 24


def test_the_page_on_slides_runs_as_it_is_written(tmp_path, monkeypatch):
    pytest.importorskip("h5py")
    monkeypatch.chdir(tmp_path)
    slides("slides", 0, labels=True)
    slides("slides-of-today", 1, labels=False)
    done = run("slides.md")
    assert [command.split()[0] for command in done] == ["fit", "fit", "predict", "predict", "data", "fit", "predict"]
    for out, n_bags in (("new", 24), ("new-patients", 12), ("new-of-store", 24)):
        assert len(pd.read_csv(Path(out) / "bags.csv")) == n_bags
        assert len(list((Path(out) / "slides").glob("*.geojson"))) == 24
