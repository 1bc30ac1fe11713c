import numpy as np
import pytest

from psimil.ct.scans.windows import BLOOD, BONE, BRAIN, SOFT, WINDOWS, Window, apply_windows, read_windows
from psimil.foundations.errors import InputError


def by_hand(hu, window, size):
    """Window, then the mean over the area of each cell, summed pixel by pixel."""
    values = np.clip((hu.astype(float) - window.low) / window.width, 0, 1)
    side = len(hu)
    fine = np.repeat(np.repeat(values, size, 0), size, 1)  # every pixel is size x size cells of the common grid
    return fine.reshape(size, side, size, side).mean((1, 3))


@pytest.fixture
def hu():
    return np.random.default_rng(0).integers(-1024, 3071, (3, 24, 24)).astype(np.int16)


@pytest.mark.parametrize("size", [1, 5, 6, 8, 12, 24, 30])
@pytest.mark.parametrize("window", [BRAIN, BLOOD, SOFT, BONE, Window("narrow", 35.5, 12.25)], ids=lambda w: w.name)
def test_windows_are_area_means_of_windowed_pixels(hu, size, window):
    images = apply_windows(hu, [window], size=size)
    assert images.shape == (3, 1, size, size)
    assert images.dtype == np.float32
    for image, piece in zip(images, hu, strict=True):
        np.testing.assert_allclose(image[0], by_hand(piece, window, size), atol=2e-6)


@pytest.mark.parametrize("dtype", [np.int16, np.int32, np.float32, np.float64])
def test_types_of_hu_agree(hu, dtype):
    np.testing.assert_allclose(apply_windows(hu.astype(dtype), size=8), apply_windows(hu, size=8), atol=1e-6)


def test_channels_follow_the_chosen_windows():
    hu = np.full((1, 4, 4), 60, np.int16)
    assert [w.name for w in WINDOWS] == ["brain", "blood", "soft tissue"]
    np.testing.assert_allclose(apply_windows(hu)[0, :, 64, 64], [60 / 80, 80 / 200, 210 / 380], rtol=1e-6)
    np.testing.assert_allclose(apply_windows(hu, (SOFT, BRAIN), size=2)[0, :, 1, 1], [210 / 380, 60 / 80], rtol=1e-6)


def test_values_stay_in_the_unit_interval(hu):
    for size in (None, 7, 24, 100):
        images = apply_windows(hu, (*WINDOWS, BONE), size=size)
        assert images.min() >= 0
        assert images.max() <= 1
    assert apply_windows(hu, size=None).shape == (3, 3, 24, 24)


def test_slices_that_are_not_square_are_padded_with_air():
    hu = np.full((1, 4, 8), 80, np.int16)
    image = apply_windows(hu, [BRAIN], size=8)[0, 0]
    np.testing.assert_array_equal(image, np.repeat([0, 1, 0], [2, 4, 2])[:, None] * np.ones(8))
    np.testing.assert_array_equal(apply_windows(hu.transpose(0, 2, 1), [BRAIN], size=8)[0, 0], image.T)
    assert apply_windows(hu, size=None).shape == (1, 3, 4, 8)


def test_input_is_not_changed(hu):
    before = hu.copy()
    apply_windows(hu, size=8)
    np.testing.assert_array_equal(hu, before)


def test_large_blocks_do_not_overflow():
    hu = np.full((1, 512, 512), 3071, np.int16)
    np.testing.assert_allclose(apply_windows(hu, (*WINDOWS, BONE), size=1), 1)
    np.testing.assert_allclose(
        apply_windows(hu, [Window("wide", 1000, 60000)], size=256), (3071 + 29000) / 60000, rtol=1e-5
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: apply_windows(np.zeros((4, 4))), r"hu has shape \(4, 4\), expected numbers of shape \(slices, rows"),
        (lambda: apply_windows(np.zeros((0, 4, 4))), "expected numbers"),
        (lambda: apply_windows(np.full((1, 4, 4), "a")), "expected numbers"),
        (lambda: apply_windows(np.full((1, 4, 4), np.nan)), "not finite"),
        (lambda: apply_windows(np.zeros((1, 4, 4)), []), "no window was chosen"),
        (lambda: apply_windows(np.zeros((1, 4, 4)), size=0), "size is 0"),
        (lambda: Window("flat", 40, 0), "window 'flat' has level 40 and width 0"),
        (lambda: Window("odd", np.nan, 80), "level nan"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(InputError, match=message):
        call()


@pytest.mark.parametrize("text", ["", "brain", "brain:40", "brain:40/80/9", "brain:a/b", ":40/80", "brain:40/80,"])
def test_windows_that_cannot_be_read(text):
    with pytest.raises(InputError, match="written as name:level/width"):
        read_windows(text)


def test_windows_are_read_from_text():
    assert read_windows("brain:40/80,blood:80/200,soft tissue:40/380") == WINDOWS
    with pytest.raises(InputError, match="the width must be > 0"):
        read_windows("brain:40/0")
