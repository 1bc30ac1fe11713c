"""Heat maps: they add up to what blurring does to the log-odds, lie where the network looks, and point at blood."""

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from scipy.ndimage import zoom
from torch import nn

from psimil import VGPMIL
from psimil.ct import CTPipeline, Scan
from psimil.ct.network.attcnn import AttCNN, scan_features
from psimil.ct.network.backbone import slice_tensor
from psimil.ct.network.heat_maps import AT_A_TIME, blurred_slices, heat_maps, integrated_gradients
from psimil.ct.phantom.head import head
from psimil.ct.phantom.trial import demo_pipeline
from psimil.foundations.errors import InputError
from psimil.model.bags import Bags
from psimil.results.heat import shown_heat

SIZE = 24


def scans(count=12, slices=5, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (count, slices, 3, SIZE, SIZE), dtype=np.uint8)


def fitted(network, images, **settings):
    bags = [scan_features(network, scan).double().numpy() for scan in images]
    return VGPMIL(n_inducing=10, random_state=0, **settings).fit(bags, np.arange(len(images)) % 2).model_


def network(seed=0, **how):
    torch.manual_seed(seed)
    return AttCNN(n_features=4, **how)


class Corner(nn.Module):
    """Features of the upper left quarter alone, smooth in the pixels."""

    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(3, 4)

    def forward(self, slices):
        return torch.tanh(self.mix((slices[:, :, : SIZE // 2, : SIZE // 2]).square().mean((2, 3))))


@pytest.mark.parametrize("settings", [{}, {"labels": "chain"}, {"context": "bag"}, {"posterior": "augmented"}])
def test_pixels_add_up_to_what_blurring_takes_from_the_log_odds(settings, monkeypatch):
    monkeypatch.setattr("psimil.ct.network.heat_maps.STEPS", 200)  # the path is long beside the length scale
    net, images = network(backbone=Corner()), scans()
    gp = fitted(net, images, **settings)
    maps = heat_maps(net, gp, images[:2], np.ones(10, bool))
    for scan, found in zip(images, maps, strict=False):
        sharp = slice_tensor(scan)
        blurred = torch.from_numpy(blurred_slices(sharp.numpy()))
        whole = gp.seen(Bags(scan_features(net, scan).double().numpy(), [0, 5])).X
        without = np.array(whole)
        without[:, :4] = net.features(blurred).detach().double().numpy()  # what the scan adds stays
        expected = gp.latent(whole, raw=True)[0] - gp.latent(without, raw=True)[0]
        np.testing.assert_allclose(found.sum((1, 2)), expected, rtol=2e-3, atol=1e-4)


def test_the_sum_is_nearly_that_with_the_steps_that_are_taken():
    net, images = network(), scans()
    gp = fitted(net, images)
    maps = np.concatenate(heat_maps(net, gp, images[:4], np.ones(20, bool))).sum((1, 2))
    sharp = slice_tensor(images[:4].reshape(20, 3, SIZE, SIZE))
    ends = (sharp, torch.from_numpy(blurred_slices(sharp.numpy())))
    whole, without = (gp.latent(net.features(one).detach().double().numpy(), raw=True)[0] for one in ends)
    assert np.abs(maps - (whole - without)).sum() < 0.03 * np.abs(whole - without).sum()


def test_only_what_the_network_sees_is_warm():
    net, images = network(backbone=Corner()), scans()
    (maps,) = heat_maps(net, fitted(net, images), images[:1], np.ones(5, bool))
    assert np.abs(maps[:, : SIZE // 2, : SIZE // 2]).max() > 0
    assert not maps[:, SIZE // 2 :].any() and not maps[:, :, SIZE // 2 :].any()


def test_a_sum_over_pixels_is_taken_apart_exactly():
    slices = slice_tensor(scans(1)[0])
    weights = torch.from_numpy(np.random.default_rng(1).normal(size=slices.shape[1:])).float()
    found = integrated_gradients(lambda x: (x * weights).sum((1, 2, 3)), slices)
    details = slices.numpy() - blurred_slices(slices.numpy())
    np.testing.assert_allclose(found, (details * weights.numpy()).sum(1), atol=1e-5)


def test_slices_that_are_not_wanted_stay_cold_and_the_others_do_not_depend_on_them():
    net, images = network(), scans(12, AT_A_TIME + 3)
    gp, every = fitted(net, images), np.ones(2 * (AT_A_TIME + 3), bool)
    some = np.arange(len(every)) % 3 == 0
    whole, part = (np.concatenate(heat_maps(net, gp, images[:2], wanted)) for wanted in (every, some))
    assert not part[~some].any() and (np.abs(part[some]).sum((1, 2)) > 0).all()
    np.testing.assert_allclose(part[some], whole[some], atol=1e-6)


def test_threads_do_not_change_a_bit():
    net, images = network(), scans()
    gp, before = fitted(net, images), torch.get_num_threads()
    found = []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            found.append(np.concatenate(heat_maps(net, gp, images[:3], np.ones(15, bool))))
    finally:
        torch.set_num_threads(before)
    np.testing.assert_array_equal(*found)


def test_a_kernel_that_torch_does_not_know_is_refused():
    net, images = network(), scans()
    with pytest.raises(InputError, match="residual"):
        heat_maps(net, fitted(net, images, residual="full", posterior="augmented"), images[:1], np.ones(5, bool))


def test_a_pipeline_takes_scans_of_any_kind():
    rng = np.random.default_rng(0)
    given = [Scan(str(b), rng.integers(0, 80, (5, 32, 32)).astype(np.int16), np.arange(5.0), (1.0, 1.0))
             for b in range(12)]  # fmt: skip
    pipeline = CTPipeline(size=16, epochs=1, gp=VGPMIL(n_inducing=8, random_state=0)).fit(given, [0, 1] * 6)
    wanted = np.zeros(10, bool)
    wanted[[1, 7]] = True
    whole, part = pipeline.heat_maps(given[:2]), pipeline.heat_maps(given[:2], wanted)
    assert [maps.shape for maps in whole] == [(5, 16, 16)] * 2
    assert np.flatnonzero(np.concatenate(part).any((1, 2))).tolist() == [1, 7]
    with pytest.raises(InputError, match="10 slices"):
        pipeline.heat_maps(given[:2], wanted[:9])


def test_what_is_shown_rises_with_what_raises_the_log_odds_alone():
    maps = np.zeros((3, 32, 32))
    maps[0, 8, 8], maps[1, 24, 8], maps[2, 8, 24] = 2.0, 1.0, -5.0
    shown = shown_heat(maps, 16)
    assert shown.dtype == np.uint8 and shown.shape == (3, 16, 16)
    assert shown[0].max() == 255 and np.unravel_index(shown[0].argmax(), (16, 16)) == (4, 4)
    assert 120 <= shown[1].max() <= 135 and np.unravel_index(shown[1].argmax(), (16, 16)) == (12, 4)
    assert not shown[2].any() and not shown_heat(-np.abs(maps), 16).any()


@pytest.mark.slow
def test_on_phantoms_the_warmest_place_is_in_the_blood():
    """Trained from scan labels alone; blood covers a hundredth of such slices."""
    rng = np.random.default_rng(40)
    drawn = [head(rng, positive=b % 2 == 1, lesions=2, size=128) for b in range(60)]
    given = [Scan(str(b), one.hu, one.positions, one.spacing) for b, one in enumerate(drawn)]
    pipeline = demo_pipeline().fit(given, np.arange(60) % 2)
    unseen = [head(rng, positive=True, lesions=2, size=128) for _ in range(12)]
    given = [Scan(str(b), one.hu, one.positions, one.spacing) for b, one in enumerate(unseen)]
    called = pipeline.predict_dist(given).instance_label == 1
    truth = np.concatenate([one.truth for one in unseen]) == 1
    blood = np.concatenate([one.blood for one in unseen])
    shown = np.concatenate([shown_heat(maps, 64) for maps in pipeline.heat_maps(given, called)])
    both = np.flatnonzero(called & truth)
    enlarged = zoom(shown[both].astype(float), (1, 2, 2), order=1, mode="nearest", grid_mode=True)
    places = enlarged.reshape(len(both), -1).argmax(axis=1)
    hit = blood[both].reshape(len(both), -1)[np.arange(len(both)), places]
    assert len(both) > 20 and blood[both].mean() < 0.03 and hit.mean() > 0.6
