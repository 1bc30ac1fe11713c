"""The attention CNN: its pieces against plain formulas, augmentation, and the file of its weights."""

import json
from itertools import pairwise

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from psimil.ct.network.attcnn import AttCNN  # noqa: E402
from psimil.ct.network.augmentation import Augmentation, pick_slices  # noqa: E402
from psimil.ct.network.backbone import SliceCNN, slice_tensor  # noqa: E402
from psimil.ct.network.weights import KIND, Weights, load_weights, save_weights, state_arrays  # noqa: E402
from psimil.ct.scans.windows import BLOOD, BONE, BRAIN, SOFT, WINDOWS  # noqa: E402
from psimil.files.sealed import FORMAT, read_tensors, write_tensors  # noqa: E402
from psimil.foundations.errors import InputError, MissingFile, ModelFileError  # noqa: E402

SIZES = (1, 4, 2, 7)
OFFSETS = np.cumsum((0, *SIZES))


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def model():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return AttCNN(n_features=5, attention_width=6, channels=(8, 8)).eval()


def random_slices(n=14, size=12, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).random((n, 3, size, size), dtype=np.float32))


def test_a_scan_alone_scores_as_it_does_in_a_batch(model):
    slices = random_slices()
    with torch.no_grad():
        together = model(slices, OFFSETS)
        for b, (first, last) in enumerate(pairwise(OFFSETS)):
            alone = model(slices[first:last])
            assert torch.allclose(alone.logit, together.logit[b : b + 1], atol=1e-6, rtol=0)
            assert torch.allclose(alone.attention, together.attention[first:last], atol=1e-6, rtol=0)
            assert torch.allclose(alone.features, together.features[first:last], atol=1e-6, rtol=0)
    assert together.features.shape == (14, 5)
    assert together.logit.shape == (4,)


def test_attention_is_the_softmax_of_the_formula(model):
    slices = random_slices(4)
    with torch.no_grad():
        features, attention, logit = model(slices)
        hidden, last = model.score[0], model.score[2]
        scores = torch.tanh(features @ hidden.weight.T + hidden.bias) @ last.weight[0]
        expected = torch.softmax(scores, 0)
        pooled = expected @ features
        assert torch.allclose(attention, expected, atol=1e-6)
        assert torch.allclose(logit, pooled @ model.classifier.weight[0] + model.classifier.bias, atol=1e-6)


def test_order_of_slices_does_not_matter_to_the_scan(model):
    slices = random_slices(6)
    with torch.no_grad():
        assert torch.allclose(model(slices).logit, model(slices.flip(0)).logit, atol=1e-6)


def test_gradients_reach_every_weight(model):
    gradients = torch.autograd.grad(model(random_slices(), OFFSETS).logit.sum(), list(model.parameters()))
    assert all(torch.isfinite(g).all() and g.abs().sum() > 0 for g in gradients)


@pytest.mark.parametrize("size", [1, 7, 16, 33])
def test_slices_of_any_size_will_do(size):
    assert SliceCNN(8, channels=(8, 16, 16, 12))(torch.rand(2, 3, size, size)).shape == (2, 8)


def test_windows_are_whitened_and_activations_standardised_by_measure():
    grey = np.random.default_rng(0).random((6, 1, 12, 12))
    slices = torch.from_numpy(grey + [[[[0.0]], [[0.1]], [[0.2]]]] * random_slices(6).numpy()).float()  # near copies
    network = SliceCNN(8, channels=(8,))
    network.measure(slices)
    pixels = network.blocks[0](slices).transpose(0, 1).flatten(1)
    assert torch.allclose(torch.cov(pixels), torch.eye(3), atol=0.15)
    activations = network.blocks[:-1](slices)
    assert torch.allclose(activations.mean((0, 2, 3)), torch.zeros(8), atol=1e-4)
    assert torch.allclose(activations.std((0, 2, 3)), torch.ones(8), atol=0.01)


def test_the_network_is_small():
    assert sum(p.numel() for p in AttCNN(8).parameters()) < 100_000


@pytest.mark.parametrize("offsets", [[0, 3], [1, 4], [0, 2, 2, 4], [0], [[0, 4]]])
def test_wrong_offsets_are_refused(model, offsets):
    with pytest.raises(InputError, match="offsets must rise from 0 to the number of slices, 4"):
        model(random_slices(4), offsets)


def test_a_backbone_of_ones_own_is_checked():
    own = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 4 * 4, 8))
    assert AttCNN(8, own)(torch.rand(5, 3, 4, 4)).features.shape == (5, 8)
    with pytest.raises(InputError, match=r"features of shape \(5, 8\) for 5 slices, expected \(5, 32\)"):
        AttCNN(32, own)(torch.rand(5, 3, 4, 4))


def test_bytes_and_floats_are_the_same_slices():
    whole = np.random.default_rng(0).integers(0, 256, (2, 3, 4, 4)).astype(np.uint8)
    assert torch.equal(slice_tensor(whole), slice_tensor((whole / 255).astype(np.float32)))
    assert slice_tensor(whole.astype(np.float16)).dtype == torch.float32


def still(**changes):
    return Augmentation(**{**dict.fromkeys(Augmentation.__dataclass_fields__, 0.0), **changes})


def test_augmentation_without_room_changes_nothing():
    slices = random_slices(3)
    assert torch.allclose(still().apply(slices, np.random.default_rng(0)), slices, atol=1e-5)


def test_a_flip_is_a_mirror_image():
    slices = random_slices(3)
    assert torch.allclose(still(flip=1.0).apply(slices, np.random.default_rng(0)), slices.flip(3), atol=1e-5)


def test_a_rotation_turns_and_a_shift_moves():
    slices = torch.zeros(1, 3, 21, 21)
    slices[:, :, 10, 18] = 1.0  # right of the middle
    turned = still(rotation=20.0).apply(slices, np.random.default_rng(3))[0, 0]
    row, column = np.unravel_index(int(turned.argmax()), (21, 21))
    assert row != 10
    assert np.hypot(row - 10, column - 10) == pytest.approx(8, abs=1.0)
    moved = still(shift=0.2).apply(slices, np.random.default_rng(3))[0, 0]
    assert moved.argmax() != slices[0, 0].argmax()


def test_augmentation_stays_in_range_and_changes_slices_alike():
    slices = random_slices(1).expand(4, -1, -1, -1)
    changed = Augmentation(contrast=0.5, brightness=0.5).apply(slices, np.random.default_rng(0))
    assert changed.min() >= 0
    assert changed.max() <= 1
    assert all(torch.equal(changed[0], other) for other in changed[1:])
    assert not torch.allclose(changed, slices)


def test_picked_slices_are_spread_and_in_order():
    picked = pick_slices(np.arange(400), 20, np.random.default_rng(1))
    assert np.array_equal(picked // 20, np.arange(20))
    assert np.array_equal(pick_slices(np.arange(7), 20, np.random.default_rng(1)), np.arange(7))
    assert np.array_equal(pick_slices(np.arange(70), None, np.random.default_rng(1)), np.arange(70))


@pytest.fixture
def saved(model, tmp_path):
    path = tmp_path / "cnn.safetensors"
    save_weights(path, Weights(model, WINDOWS, 24))
    return path


def test_weights_come_back_bit_for_bit(model, saved, tmp_path):
    state = torch.random.get_rng_state()
    found = load_weights(saved)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert found.windows == WINDOWS
    assert found.size == 24
    assert found.fingerprint == Weights(model, WINDOWS, 24).fingerprint
    assert not found.model.training
    assert all(np.array_equal(a, state_arrays(found.model)[name]) for name, a in state_arrays(model).items())
    save_weights(tmp_path / "again.safetensors", found)
    assert (tmp_path / "again.safetensors").read_bytes() == saved.read_bytes()


def test_the_fingerprint_names_weights_windows_and_size(model):
    names = {Weights(model, WINDOWS, 24).fingerprint, Weights(model, WINDOWS, 25).fingerprint}
    names |= {
        Weights(model, (BRAIN, BLOOD, BONE), 24).fingerprint,
        Weights(model, (BRAIN, SOFT, BLOOD), 24).fingerprint,
    }
    with torch.no_grad():
        model.classifier.bias += 1e-6
    names.add(Weights(model, WINDOWS, 24).fingerprint)
    assert len(names) == 5


def test_a_backbone_of_ones_own_needs_its_maker(tmp_path):
    def make():
        return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.BatchNorm1d(48), torch.nn.Linear(48, 8))

    model, path = AttCNN(8, make()).eval(), tmp_path / "cnn.safetensors"
    save_weights(path, Weights(model, WINDOWS, 4))
    slices = torch.rand(5, 3, 4, 4)
    with torch.no_grad():
        assert torch.equal(load_weights(path, make).model(slices).logit, model(slices).logit)
    with pytest.raises(InputError, match=r"the backbone is custom. Give the function that makes it"):
        load_weights(path)
    with pytest.raises(ModelFileError, match=r"unknown|missing|expected"):
        load_weights(path, lambda: torch.nn.Linear(3, 8))


def test_a_backbone_given_for_the_library_s_network_is_refused(saved):
    with pytest.raises(InputError, match=r"the backbone is SliceCNN. Load it without a backbone"):
        load_weights(saved, lambda: torch.nn.Linear(3, 8))


def changed(path, change):
    """The file written again, with right checksums, after ``change(tensors, header)``."""
    tensors, header = read_tensors(path, KIND)
    change(tensors, header)
    write_tensors(path, KIND, tensors, header)
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t, h: t.pop("classifier.bias"), '"classifier.bias" is missing'),
        (lambda t, h: t.update(extra=np.zeros(2)), '"extra" is unknown'),
        (lambda t, h: t.update({"classifier.bias": np.zeros(1)}), "classifier.bias is float64"),
        (lambda t, h: t.update({"classifier.bias": np.zeros(2, np.float32)}), r"is float32 \(2,\), expected"),
        (lambda t, h: t.update({"classifier.bias": np.full(1, np.nan, np.float32)}), "non-finite"),
        (lambda t, h: t["classifier.bias"].__iadd__(1), "fingerprint does not belong"),
        (lambda t, h: h.update(size=0), "size of a slice"),
        (lambda t, h: h.update(size=True), "size of a slice"),
        (lambda t, h: h.update(more=1), "keys are incomplete or unknown"),
        (lambda t, h: h.pop("windows"), "keys are incomplete or unknown"),
        (lambda t, h: h["windows"].pop(), "windows need a name"),
        (lambda t, h: h["windows"][0].update(width=0), "windows need a name"),
        (lambda t, h: h["windows"][0].update(level="40"), "windows need a name"),
        (lambda t, h: h["architecture"].update(n_features=10**9), "values that no network has"),
        (lambda t, h: h["architecture"].update(channels=[4096] * 10), "missing|expected"),  # 1.4 billion weights
        (lambda t, h: h["architecture"].update(backbone="other"), "values that no network has"),
        (lambda t, h: h["architecture"].pop("attention"), "architecture is incomplete"),
    ],
)
def test_weights_that_break_the_schema_are_refused(saved, change, message):
    with pytest.raises(ModelFileError, match=message):
        load_weights(changed(saved, change))


def test_damaged_and_foreign_files_are_refused(saved, tmp_path):
    data = saved.read_bytes()
    rng = np.random.default_rng(0)
    for place in [*rng.integers(0, len(data), 150), 0, 7, 8, len(data) - 1]:
        saved.write_bytes(data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1 :])
        with pytest.raises(ModelFileError, match="damaged"):
            load_weights(saved)
    for content in (b"", data[: len(data) // 2], b"PK\x03\x04", b"\x80\x04K\x01.", json.dumps({}).encode() * 20):
        saved.write_bytes(content)
        with pytest.raises(ModelFileError, match=r"damaged|pickle"):
            load_weights(saved)
    with pytest.raises(MissingFile, match=r"none.safetensors does not exist"):
        load_weights(tmp_path / "none.safetensors")
    with pytest.raises(ModelFileError, match="is not a file"):
        load_weights(tmp_path)


def test_files_of_another_kind_or_a_later_format_are_refused(tmp_path):
    path = tmp_path / "file"
    write_tensors(path, "something", {"a": np.zeros(1)}, {})
    with pytest.raises(ModelFileError, match="is something else: a something"):
        load_weights(path)
    write_tensors(path, KIND, {"a": np.zeros(1)}, {"format": FORMAT + 1})
    with pytest.raises(ModelFileError, match=f"made by version {FORMAT + 1}, this is version {FORMAT}"):
        load_weights(path)
