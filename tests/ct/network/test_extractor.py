"""FeatureExtractor: from scans to bags, in a stream, with a fingerprint, and what it says without torch."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import roc_auc_score
from sklearn.utils.validation import check_is_fitted

from psimil import Bags
from psimil.ct.network import extractor as module
from psimil.ct.network.extractor import FeatureExtractor, slice_images
from psimil.ct.scans.scan import Scan
from psimil.ct.scans.windows import BONE, BRAIN, WINDOWS
from psimil.foundations.errors import InputError, NotFitted

torch = pytest.importorskip("torch")


def make_scan(number, positive, size=32):
    """Brain with noise; a positive scan has denser tissue in two slices."""
    rng = np.random.default_rng(number)
    hu = rng.normal(35, 4, (int(rng.integers(4, 8)), size, size))
    for place in rng.choice(len(hu), 2, replace=False) if positive else ():
        row, column = rng.integers(4, size - 12, 2)
        hu[place, row : row + 8, column : column + 8] += 35
    return Scan(f"scan{number}", hu.astype(np.int16), 5.0 * np.arange(len(hu)), (0.5, 0.5))


Y = np.arange(24) % 2
SCANS = [make_scan(number, label) for number, label in enumerate(Y)]
QUICK = {"size": 16, "channels": (8, 16), "learning_rate": 4e-3, "epochs": 16, "batch_scans": 6}


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def fitted(one_thread):
    return FeatureExtractor(**QUICK).fit(SCANS, Y)


def test_scans_become_bags(fitted):
    bags = fitted.transform(SCANS)
    assert isinstance(bags, Bags)
    assert bags.X.dtype == np.float64
    assert bags.ids.tolist() == [scan.id for scan in SCANS]
    assert bags.sizes.tolist() == [len(scan.hu) for scan in SCANS]
    assert bags.n_features == 8


def test_it_learns(fitted):
    fresh = [make_scan(number, number % 2) for number in range(100, 124)]
    truth = np.arange(100, 124) % 2
    prob = fitted.predict_proba(fresh)
    assert prob.sum(axis=1) == pytest.approx(np.ones(24))
    assert roc_auc_score(truth, prob[:, 1]) > 0.9
    attention = fitted.attention(fresh)
    assert [len(a) for a in attention] == [len(scan.hu) for scan in fresh]
    assert all(a.sum() == pytest.approx(1, abs=1e-5) for a in attention)


def test_features_do_not_depend_on_company_order_or_threads(fitted):
    together = fitted.transform(SCANS)
    backwards = fitted.transform(SCANS[::-1])
    torch.set_num_threads(2)
    try:
        threaded = fitted.transform(SCANS)
    finally:
        torch.set_num_threads(1)
    assert np.array_equal(together.X, threaded.X)
    for number, scan in enumerate(SCANS):
        assert np.array_equal(together[number], backwards[len(SCANS) - 1 - number])
        assert np.array_equal(together[number], fitted.transform([scan]).X)


def test_long_scans_go_through_in_pieces(fitted, monkeypatch):
    scan = make_scan(1, True)
    long = replace(scan, hu=np.concatenate([scan.hu] * 9), positions=np.arange(9.0 * len(scan.hu)))
    assert len(long.hu) > 2 * module.AT_A_TIME
    whole = fitted.transform([long]).X
    assert np.allclose(whole, np.tile(fitted.transform([scan]).X, (9, 1)), atol=1e-5)


def test_scans_are_taken_one_at_a_time(fitted):
    alive, most = set(), []

    class Lazy:
        def __len__(self):
            return 40

        def __getitem__(self, number):
            if number >= 40:
                raise IndexError
            alive.add(number)
            most.append(number)
            return make_scan(number, False)

    stream = fitted._features(Lazy())
    next(stream)
    assert max(most) <= 4  # a few ahead, not all
    stream.close()
    assert len(fitted.transform(Lazy())) == 40
    assert alive == set(range(40))


def test_arrays_are_scans_too(fitted):
    bags = fitted.transform([scan.hu for scan in SCANS[:3]])
    assert np.array_equal(bags.X, fitted.transform(SCANS[:3]).X)
    assert bags.ids.tolist() == [0, 1, 2]
    assert fitted.transform(iter(SCANS[:3])).ids.tolist() == ["scan0", "scan1", "scan2"]


def test_it_comes_back_from_its_file(fitted, tmp_path):
    path = tmp_path / "cnn.safetensors"
    fitted.save(path)
    loaded = FeatureExtractor.load(path)
    check_is_fitted(loaded)
    assert loaded.fingerprint_ == fitted.fingerprint_
    assert (loaded.size, loaded.n_features, loaded.channels) == (16, 8, (8, 16))
    assert np.array_equal(loaded.transform(SCANS[:4]).X, fitted.transform(SCANS[:4]).X)
    assert np.array_equal(loaded.predict_proba(SCANS[:4]), fitted.predict_proba(SCANS[:4]))
    assert not any(scan.id.encode() in path.read_bytes() for scan in SCANS)


def test_windows_are_part_of_the_extractor(tmp_path):
    quick = {**QUICK, "epochs": 1, "windows": (BRAIN, BONE)}
    extractor = FeatureExtractor(**quick).fit(SCANS, Y)
    extractor.save(tmp_path / "cnn")
    assert FeatureExtractor.load(tmp_path / "cnn").windows == (BRAIN, BONE)
    assert extractor.fingerprint_ != FeatureExtractor(**{**quick, "size": 17}).fit(SCANS, Y).fingerprint_


def test_the_same_state_gives_the_same_fingerprint(tmp_path):
    quick = {**QUICK, "epochs": 2}
    one = FeatureExtractor(**quick, checkpoint=tmp_path / "c").fit(SCANS, Y)
    assert clone(one).fit(SCANS, Y).fingerprint_ == one.fingerprint_
    assert FeatureExtractor(**quick).fit(SCANS, Y).fingerprint_ == one.fingerprint_
    assert FeatureExtractor(**quick, random_state=1).fit(SCANS, Y).fingerprint_ != one.fingerprint_
    assert len(one.history_) == 2
    assert one.best_epoch_ in (1, 2)


def test_a_backbone_of_ones_own_travels_by_its_maker(tmp_path):
    def make():
        return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 16 * 16, 8))

    extractor = FeatureExtractor(**{**QUICK, "epochs": 1}, backbone=make).fit(SCANS, Y)
    again = FeatureExtractor(**{**QUICK, "epochs": 1}, backbone=make).fit(SCANS, Y)
    assert again.fingerprint_ == extractor.fingerprint_
    extractor.save(tmp_path / "cnn")
    loaded = FeatureExtractor.load(tmp_path / "cnn", backbone=make)
    assert np.array_equal(loaded.transform(SCANS[:2]).X, extractor.transform(SCANS[:2]).X)


def test_torch_is_left_as_it_was(fitted):
    before = torch.random.get_rng_state(), torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    fitted.transform(SCANS[:2])
    with pytest.raises(InputError):
        fitted.transform([*SCANS[:2], np.zeros((3, 3))])
    after = torch.random.get_rng_state(), torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    assert torch.equal(before[0], after[0])
    assert before[1:] == after[1:]


@pytest.mark.parametrize(
    ("scans", "message"),
    [
        ([], "there are no scans"),
        ([np.zeros((3, 3))], r"scan 0 has shape \(3, 3\), expected numbers of shape \(slices, rows, columns\)"),
        ([SCANS[0], np.zeros((0, 3, 3))], r"scan 1 has shape \(0, 3, 3\)"),
        ([np.full((1, 8, 8), np.nan)], "not finite"),
        ([np.full((1, 8, 8), "a")], "scan 0 has shape"),
    ],
)
def test_bad_scans_are_refused(fitted, scans, message):
    with pytest.raises(InputError, match=message):
        fitted.transform(scans)


def test_it_must_be_fitted_first():
    for call in (FeatureExtractor().transform, FeatureExtractor().attention, FeatureExtractor().predict_proba):
        with pytest.raises(NotFitted, match="not fitted"):
            call(SCANS)
    with pytest.raises(NotFitted, match="not fitted"):
        FeatureExtractor().save("nowhere")
    with pytest.raises(InputError, match="fit needs scan labels"):
        FeatureExtractor().fit(SCANS)


def test_without_torch_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)  # import torch raises ImportError
    for call in (lambda: FeatureExtractor().fit(SCANS, Y), lambda: FeatureExtractor.load("cnn")):
        with pytest.raises(InputError, match=r"needs torch.*pip install .*\[ct\]"):
            call()


def test_slices_are_rounded_to_bytes():
    images = slice_images(SCANS[0].hu, WINDOWS, 16)
    assert images.dtype == np.uint8
    assert images.shape == (len(SCANS[0].hu), 3, 16, 16)
    assert 90 < images[:, 0].mean() < 130  # brain of 35 HU in the window from 0 to 80
