"""Bags as datasets of torchmil, and its generators as bags, with the real package."""

import importlib
import subprocess
import sys

import numpy as np
import pytest

from psimil import VGPMIL, Bags
from psimil.datasets import make_bags
from psimil.foundations.errors import InputError

torch = pytest.importorskip("torch")
pytest.importorskip("torchmil.datasets")

from torch.utils.data import DataLoader  # noqa: E402
from torchmil.data import collate_fn  # noqa: E402
from torchmil.datasets import CTScanDataset, SCStandardMILDataset, ToyDataset  # noqa: E402
from torchmil.models import ABMIL, SmABMIL  # noqa: E402

from psimil.torchmil import BagDataset, bags_of  # noqa: E402

BAGS = Bags.from_list(
    [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0]], [[7.0, 8.0], [9.0, 1.0], [2.0, 3.0]]], ids=["b", "c", "a"]
)


def test_items_are_the_bags_in_their_order():
    data = BagDataset(BAGS, [1, 0, 1], [0, 1, 0, 1, -1, 0])
    assert data.get_bag_names() == ["b", "c", "a"] and [int(y) for y in data.get_bag_labels()] == [1, 0, 1]
    for number, X in enumerate(BAGS):
        item = data[number]
        assert set(item.keys()) == {"X", "Y", "y_inst"}
        np.testing.assert_array_equal(item["X"].numpy(), X)
        assert item["X"].dtype == torch.float32 and item["Y"].shape == ()
    assert data[2]["y_inst"].tolist() == [1, -1, 0]
    assert [one["Y"].item() for one in data.subset([2, 1])] == [1, 0]
    assert set(BagDataset(BAGS, dtype="float64")[0].keys()) == {"X"}


def test_batches_are_padded_by_torchmil():
    batch = next(iter(DataLoader(BagDataset(BAGS, [1, 0, 1]), batch_size=3, collate_fn=collate_fn)))
    assert batch["X"].shape == (3, 3, 2) and batch["Y"].tolist() == [1, 0, 1]
    assert batch["mask"].tolist() == [[1, 1, 0], [1, 0, 0], [1, 1, 1]]


def test_ordered_bags_have_the_neighbours_that_torchmil_gives_scans(tmp_path):
    for folder, arrays in (("X", list(BAGS)), ("Y", [np.array(1)] * 3)):
        (tmp_path / folder).mkdir()
        for name, array in zip(BAGS.ids, arrays, strict=True):
            np.save(tmp_path / folder / f"{name}.npy", array)
    keys = ["X", "Y", "adj", "coords"]
    theirs = CTScanDataset(str(tmp_path / "X"), str(tmp_path / "Y"), bag_keys=keys, load_at_init=False)
    ours = BagDataset(BAGS.in_order(), [1, 1, 1])
    with torch.sparse.check_sparse_tensor_invariants(True):
        for number, name in enumerate(ours.get_bag_names()):
            item, other = ours[number], theirs[theirs.get_bag_names().index(name)]
            torch.testing.assert_close(item["adj"].to_dense(), other["adj"].to_dense())
            torch.testing.assert_close(item["coords"], other["coords"])


def test_there_are_no_neighbours_across_a_gap_or_without_an_order():
    one = Bags.from_list([[[1.0], [2.0], [3.0], [4.0]]])
    adjacent = BagDataset(one.in_order([0.0, 1.0, 5.0, 6.0]))[0]["adj"].to_dense() > 0
    assert adjacent.nonzero().tolist() == [[0, 1], [1, 0], [2, 3], [3, 2]]
    assert "adj" not in BagDataset(one)[0].keys()
    on_a_plane = BagDataset(one, coords=[[0, 0], [0, 1], [5, 5], [1, 1]])[0]["adj"].to_dense() > 0
    assert on_a_plane.nonzero().tolist() == [[0, 1], [0, 3], [1, 0], [1, 3], [3, 0], [3, 1]]


def test_models_of_torchmil_take_them():
    batch = next(iter(DataLoader(BagDataset(BAGS.in_order(), [1, 0, 1]), batch_size=3, collate_fn=collate_fn)))
    assert ABMIL(in_shape=(2,))(batch["X"], batch["mask"]).shape == (3,)
    adjacent = batch["adj"].to_dense().float()
    assert SmABMIL(in_shape=(2,))(batch["X"], adjacent, batch["mask"]).shape == (3,)


def test_what_does_not_fit_is_refused():
    for options, message in (
        ({"y": [1, 0]}, r"labels have shape \(2,\)"),
        ({"y": [1, 0, 2]}, "label of bag a is 2"),
        ({"y_instances": [0]}, r"instance labels have shape \(1,\)"),
        ({"coords": [[1]]}, r"coords have shape \(1, 1\)"),
    ):
        with pytest.raises(InputError, match=message):
            BagDataset(BAGS, **options)
    with pytest.raises(InputError, match=r"bags must be psimil.Bags"):
        BagDataset([[[1.0]]])


def test_its_generators_are_bags():
    rng = np.random.default_rng(0)
    digits = np.repeat(np.arange(4), 50)
    toy = ToyDataset(rng.normal(size=(200, 2)) + 4.0 * (digits == 3)[:, None], digits, 30, [3], (4, 9), seed=0)
    bags, y, known = bags_of(toy)
    assert len(bags) == 30 and y.sum() == 15
    np.testing.assert_array_equal([labels.max() for labels in bags.split(known)], y)
    model = VGPMIL(n_inducing=10, random_state=0).fit(bags, y)
    assert model.score(bags, y) == 1.0
    standard = bags_of(SCStandardMILDataset(D=4, num_bags=20, B=5, seed=0))
    assert len(standard.bags) == 20 and set(standard.y) == {0, 1}


def test_bags_survive_the_way_there_and_back():
    bags, y, known = make_bags(n_bags=8, seed=0)
    back = bags_of(BagDataset(bags, y, known, dtype="float64"))
    np.testing.assert_array_equal(back.bags.X, bags.X)
    assert back.y.tolist() == y.tolist() and back.y_instances.tolist() == known.tolist()


def test_reading_its_folders_does_not_import_torch():
    code = "import sys, psimil.datasets.torchmil; assert not {'torch', 'torchmil'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_torchmil_it_says_how_to_install_it(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("psimil.torchmil")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torchmil", None)
    monkeypatch.setitem(sys.modules, "torchmil.models", None)
    with pytest.raises(InputError, match=r"^psimil.torchmil needs torchmil. Install it with: .*torchmil"):
        importlib.import_module("psimil.torchmil")
