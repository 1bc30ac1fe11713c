"""Slices of a scan have an order: bags of features are linked along it, but not over slices that are missing."""

from types import SimpleNamespace

import numpy as np
import pytest

from psimil import VGPMIL, Bags
from psimil.ct.pipeline import CTPipeline
from psimil.ct.scans.scan import Scan, Slices, places
from psimil.ct.scans.windows import WINDOWS
from psimil.foundations.errors import InputError


def scan_of(number, positions, size=16):
    """Noise, denser in every other scan."""
    hu = np.random.default_rng(number).normal(35 + 20 * (number % 2), 4, (len(positions), size, size))
    return Scan(f"scan{number}", hu.astype(np.int16), np.asarray(positions, dtype=float), (0.5, 0.5))


POSITIONS = [[0, 5, 10, 15], [0, 5, 15, 20, 25], [-2.5, 0.0, 2.5], [100, 105, 110, 140, 145], [7], [0, 1.25]]
LINKS = [1, 1, 1, 0, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 0, 0, 1, 0]
SCANS = [scan_of(number, positions) for number, positions in enumerate(POSITIONS)]
Y = np.arange(6) % 2


def test_places_are_millimetres_of_scans_and_slices_and_numbers_of_arrays():
    mixed = [SCANS[1], Slices.of(SCANS[2], WINDOWS, 8), np.zeros((3, 4, 4))]
    assert places(mixed).tolist() == [0, 5, 15, 20, 25, -2.5, 0.0, 2.5, 0, 1, 2]


@pytest.fixture(scope="module")
def extractor():
    torch = pytest.importorskip("torch")
    from psimil.ct.network.extractor import FeatureExtractor

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield FeatureExtractor(size=8, channels=(4, 4), n_features=3, epochs=1, batch_scans=3).fit(SCANS, Y)
    torch.set_num_threads(threads)


def test_bags_of_features_are_in_order_with_links_broken_at_missing_slices(extractor):
    bags = extractor.transform(SCANS)
    assert isinstance(bags, Bags)
    assert bags.links.tolist() == LINKS
    assert bags.sizes.tolist() == [len(positions) for positions in POSITIONS]
    for scan, features in zip(SCANS, bags, strict=True):
        alone = extractor.transform([np.asarray(scan.hu)])
        np.testing.assert_allclose(alone.X, features, atol=1e-6)  # slices stay where they are
    slices = [Slices.of(scan, WINDOWS, 8) for scan in SCANS]
    assert extractor.transform(slices).links.tolist() == LINKS


def test_scans_that_come_one_by_one_and_arrays_are_in_order_without_gaps(extractor):
    whole = [link for positions in POSITIONS for link in [1] * (len(positions) - 1) + [0]]
    assert extractor.transform(iter(SCANS)).links.tolist() == whole
    assert extractor.transform([scan.hu for scan in SCANS]).links.tolist() == whole


def test_a_pipeline_learns_chains_unless_it_is_told_otherwise():
    rng = np.random.default_rng(0)
    bags = Bags.from_list([rng.normal(2.0 * (b % 2), 1.0, (4, 2)) for b in range(12)]).in_order()
    made = SimpleNamespace(transform=lambda slices: bags, fingerprint_="features")
    found = CTPipeline()._fitted(made, [], np.arange(12) % 2, seed=0)
    assert found.labels == "chain"
    assert found.model_.coupling > 0
    plain = CTPipeline(gp=VGPMIL(n_inducing=4))._fitted(made, [], np.arange(12) % 2, seed=0)
    assert plain.labels is None
    assert plain.model_.coupling == 0


def test_positions_that_are_no_numbers_are_refused(extractor):
    with pytest.raises(InputError, match="positions must be finite"):
        extractor.transform([scan_of(0, [0, np.nan, 2])])
