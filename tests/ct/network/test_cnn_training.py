"""Training of the attention CNN: it learns, it is deterministic, it survives interruption, it leaves torch alone."""

import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

torch = pytest.importorskip("torch")

from psimil.ct.network.augmentation import Augmentation  # noqa: E402
from psimil.ct.network.cnn_training import train_cnn  # noqa: E402
from psimil.ct.network.training_run import scan_logit  # noqa: E402
from psimil.ct.network.weights import state_arrays  # noqa: E402
from psimil.files.sealed import read_tensors, write_tensors  # noqa: E402
from psimil.foundations.errors import InputError, NumericalFailure  # noqa: E402

KIND = "AttCNN checkpoint"


def make_scans(count, seed, size=16):
    """Noise; in two slices of every positive scan, a brighter square."""
    rng = np.random.default_rng(seed)
    images, labels, truth = [], [], []
    for number in range(count):
        slices = 0.2 + 0.4 * rng.random((int(rng.integers(4, 8)), 3, size, size))
        bright = np.zeros(len(slices), dtype=int)
        if number % 2:
            bright[rng.choice(len(slices), 2, replace=False)] = 1
        for place in np.flatnonzero(bright):
            row, column = rng.integers(2, size - 5, 2)
            slices[place, :, row : row + 4, column : column + 4] += 0.35
        images.append((255 * slices).astype(np.uint8))
        labels.append(number % 2)
        truth.append(bright)
    return images, np.array(labels), truth


IMAGES, Y, _ = make_scans(30, 0)
QUICK = {"channels": (8, 16), "learning_rate": 4e-3, "epochs": 4, "batch_scans": 6}


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def same(one, other):
    first, second = state_arrays(one.model), state_arrays(other.model)
    equal = all(np.array_equal(first[name], second[name]) for name in first)
    return equal and one.history == other.history and one.best_epoch == other.best_epoch


def quick(images=IMAGES, y=Y, **parameters):
    return train_cnn(images, y, **{**QUICK, **parameters})


def test_it_learns_scans_and_finds_the_slices():
    trained = quick(epochs=16)
    images, y, truth = make_scans(40, 1)
    assert roc_auc_score(y, [scan_logit(trained.model, scan) for scan in images]) > 0.9
    with torch.no_grad():
        attention = [trained.model(torch.from_numpy(scan / np.float32(255))).attention.numpy() for scan in images]
    found = [roc_auc_score(t, a) for t, a in zip(truth, attention, strict=True) if t.any()]
    assert np.mean(found) > 0.9


def test_the_seed_decides_and_threads_do_not():
    one = quick(epochs=2)
    assert same(one, quick(epochs=2))
    torch.set_num_threads(2)
    try:
        assert same(one, quick(epochs=2))
    finally:
        torch.set_num_threads(1)
    assert not same(one, quick(epochs=2, seed=1))


class Stop(Exception):
    pass


def stop_after(epoch):
    def callback(record):
        if record.epoch == epoch:
            raise Stop

    return callback


@pytest.mark.parametrize("epoch", [1, 3, 4])
def test_an_interrupted_training_ends_as_if_it_was_not(tmp_path, epoch):
    path = tmp_path / "checkpoint"
    with pytest.raises(Stop):
        quick(checkpoint=path, callback=stop_after(epoch))
    seen = []
    resumed = quick(checkpoint=path, callback=lambda record: seen.append(record.epoch))
    assert seen == list(range(epoch + 1, 5))
    assert same(resumed, quick())
    assert same(quick(checkpoint=path, callback=stop_after(4)), resumed)  # all done: nothing is trained again


def test_a_backbone_with_chance_and_running_means_resumes_too(tmp_path):
    own = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Dropout(0.3), torch.nn.AdaptiveMaxPool2d(1),
        torch.nn.Flatten(), torch.nn.Linear(4, 8),
    )  # fmt: skip
    before = {name: array.copy() for name, array in state_arrays(own).items()}
    with pytest.raises(Stop):
        quick(backbone=own, checkpoint=tmp_path / "c", callback=stop_after(2))
    assert same(quick(backbone=own, checkpoint=tmp_path / "c"), quick(backbone=own))
    assert all(np.array_equal(array, state_arrays(own)[name]) for name, array in before.items())


@pytest.mark.slow
def test_killed_at_any_moment_it_resumes(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        textwrap.dedent(f"""
        import sys
        sys.path[:0] = {[os.path.dirname(__file__), *sys.path]!r}
        import test_cnn_training as t
        print("ready", flush=True)
        t.quick(checkpoint={str(tmp_path / "c")!r}, callback=lambda record: print(record.epoch, flush=True))
        """)
    )
    for wanted in (b"1\n", b"2\n"):
        with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, env={**os.environ}) as process:
            for line in process.stdout:
                if line == wanted:
                    process.send_signal(signal.SIGKILL)  # somewhere in the next epoch, or in the writing after it
                    break
        assert process.returncode == -signal.SIGKILL
    assert same(quick(checkpoint=tmp_path / "c"), quick())


def test_torch_is_left_as_it_was(tmp_path):
    torch.manual_seed(5)
    before = (
        torch.random.get_rng_state(), torch.get_num_threads(), torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(), torch.is_grad_enabled(),
    )  # fmt: skip
    numpy_state = np.random.get_state()[1].copy()
    quick(epochs=1, checkpoint=tmp_path / "c")
    with pytest.raises(Stop):
        quick(epochs=1, callback=stop_after(1))
    after = (
        torch.random.get_rng_state(), torch.get_num_threads(), torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(), torch.is_grad_enabled(),
    )  # fmt: skip
    assert torch.equal(before[0], after[0])
    assert before[1:] == after[1:]
    assert np.array_equal(numpy_state, np.random.get_state()[1])


def test_it_stops_early_and_keeps_the_best_weights():
    wrong = 1 - Y[:6]  # held-out scans with the wrong labels: the better it learns, the worse they look
    images, y = IMAGES[:6] + IMAGES, np.concatenate([wrong, Y])
    long = quick(images, y, epochs=40, patience=3, validation=range(6))
    losses = [record.validation_loss for record in long.history]
    assert len(losses) == long.best_epoch + 3 < 40
    assert long.best_epoch == 1 + int(np.argmin(losses))
    logits = np.array([scan_logit(long.model, scan) for scan in images[:6]])
    assert np.logaddexp(0, np.where(wrong == 1, -logits, logits)).mean() == pytest.approx(min(losses), abs=1e-6)


def test_without_validation_all_epochs_count():
    trained = quick(validation=0, epochs=2, augment=False)
    assert trained.best_epoch == 2
    assert [record.validation_loss for record in trained.history] == [None, None]
    assert trained.history[1].loss < 1.0


def test_slices_per_epoch_can_be_bounded():
    seen = []

    class Spy(torch.nn.Sequential):
        def forward(self, slices):
            seen.append(len(slices))
            return super().forward(slices)

    spy = Spy(torch.nn.Flatten(), torch.nn.Linear(3 * 16 * 16, 8))
    quick(IMAGES[:6], Y[:6], backbone=spy, epochs=1, max_slices=3, validation=0)
    assert set(seen) == {3}


def test_floats_and_an_augmentation_of_ones_own_are_taken():
    gentle = Augmentation(rotation=0.0, contrast=0.0)
    one = quick([scan.astype(np.float16) / 255 for scan in IMAGES[:6]], Y[:6], epochs=1, augment=gentle, validation=0)
    assert np.isfinite(one.history[0].loss)


@pytest.mark.parametrize("parameters", [{"seed": 1}, {"epochs": 5}, {"learning_rate": 2e-2}, {"n_features": 32}])
def test_a_checkpoint_of_other_settings_is_refused(checkpointed, parameters):
    with pytest.raises(InputError, match=r"belongs to another training: data or settings differ. Delete it to start"):
        quick(checkpoint=checkpointed, **parameters)


def test_a_checkpoint_of_other_data_is_refused(checkpointed):
    images = [*IMAGES[:-1], IMAGES[-1] ^ 1]
    with pytest.raises(InputError, match="another training"):
        quick(images, checkpoint=checkpointed)
    with pytest.raises(InputError, match="another training"):
        quick(y=Y[::-1], checkpoint=checkpointed)


@pytest.fixture
def checkpointed(tmp_path):
    path = tmp_path / "checkpoint"
    with pytest.raises(Stop):
        quick(checkpoint=path, callback=stop_after(1))
    return path


def test_a_damaged_checkpoint_says_what_to_do(checkpointed):
    data = checkpointed.read_bytes()
    for content in (data[: len(data) // 2], b"", data[:-1] + bytes([data[-1] ^ 1])):
        checkpointed.write_bytes(content)
        with pytest.raises(InputError, match=r"damaged.* Delete it to start over"):
            quick(checkpoint=checkpointed)


@pytest.mark.parametrize(
    "change",
    [
        lambda t, h: t.pop("first/classifier.bias"),
        lambda t, h: t.update({"second/classifier.bias": np.zeros(2, np.float32)}),
        lambda t, h: t.update({"weights/classifier.bias": np.full(1, np.inf, np.float32)}),
        lambda t, h: t.update({"best/more": np.zeros(2)}),
        lambda t, h: t.update({"more": np.zeros(2)}),
        lambda t, h: h.update(steps="4"),
        lambda t, h: h.update(history=[]),
        lambda t, h: h["history"][0].update(loss="low"),
        lambda t, h: h["history"][0].pop("loss"),
        lambda t, h: h.update(more=1),
    ],
)
def test_a_crafted_checkpoint_is_refused(checkpointed, change):
    tensors, header = read_tensors(checkpointed, KIND)
    change(tensors, header)
    write_tensors(checkpointed, KIND, tensors, header)
    with pytest.raises(InputError, match=r"AttCNN checkpoint.* Delete it to start over"):
        quick(checkpoint=checkpointed)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"y": Y[:-1]}, "30 scans but labels of shape"),
        ({"y": np.ones(30)}, "all scans have the label 1"),
        ({"y": Y + 1}, "labels must be 0 or 1"),
        ({"y": ["a"] * 30}, "labels must be 0 or 1"),
        ({"images": [*IMAGES[:-1], IMAGES[0][0]]}, r"scan 29 has slices of shape \(3, 16, 16\)"),
        ({"images": [*IMAGES[:-1], IMAGES[0][:0]]}, "scan 29 has slices of shape"),
        ({"images": [*IMAGES[:-1], IMAGES[0] * np.nan]}, "scan 29: slices must be finite"),
        ({"epochs": 0}, "epochs must be a whole number >= 1"),
        ({"learning_rate": 0.0}, "learning_rate must be a number > 0"),
        ({"max_slices": 0}, "max_slices must be"),
        ({"validation": 1.0}, "validation must be a share"),
        ({"validation": [30]}, "validation names scan 30, but there are 30"),
        ({"validation": np.flatnonzero(Y)}, "one label only"),
        ({"device": "abacus"}, "device 'abacus' is not known"),
        ({"device": "meta"}, "device 'meta' is not available"),
    ],
)
def test_bad_arguments_are_refused(parameters, message):
    with pytest.raises(InputError, match=message):
        quick(**parameters)


def test_a_loss_that_overflows_is_named():
    with pytest.raises(NumericalFailure, match=r"not finite in epoch 1. Lower learning_rate"):
        quick(epochs=1, learning_rate=1e30)
