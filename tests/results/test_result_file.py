"""Novelty, margin, joint log-odds and interval ends of draws in results.safetensors."""

from dataclasses import replace

import numpy as np
import pytest

from psimil.foundations.errors import InputError
from psimil.predictive.drawn import Bounds
from psimil.results.result_file import NAME, read_result, write_result
from psimil.results.result_set import ResultSet
from tiny import problem, quick


@pytest.mark.parametrize("posterior", ["sampled", "variational", "augmented"])
def test_uncertainty_comes_back_bit_for_bit(posterior, tmp_path):
    bags, y, _ = problem()
    found = quick(posterior=posterior).fit(bags, y).predict_dist(bags)
    ResultSet.of(found, truth=y).write(tmp_path / NAME)
    again = ResultSet.load(tmp_path).prediction
    assert again.margin == found.margin is not None
    assert (found.bounds is not None) == (posterior == "sampled")
    assert (found.log_odds_moments is not None) == (posterior == "variational")
    assert (found.novelty is None) == (posterior == "augmented")
    for name in ("bounds", "log_odds_moments"):
        before, after = getattr(found, name), getattr(again, name)
        assert type(before) is type(after)
        assert all((a == b).all() for a, b in zip(before or (), after or (), strict=True))
    for name in ("novelty", "instance_novelty", "lower", "upper", "instance_lower", "instance_upper", "refer"):
        assert np.array_equal(getattr(found, name), getattr(again, name)), name
    assert isinstance(again.bounds, Bounds) == (posterior == "sampled")


FORGED = {
    "margin": [np.array([-1.0]), np.array([np.nan]), np.array([1.0, 2.0]), np.empty(0), np.array([1])],
    "instance_novelty": [-0.1, 1.1, np.nan],
    "lower": [-0.1, 1.1, np.nan],
    "instance_upper": [-0.1, 1.1, np.nan],
}


@pytest.mark.parametrize("name", FORGED)
def test_forged_uncertainty_is_refused(name, tmp_path):
    bags, y, _ = problem()
    found = quick(posterior="sampled").fit(bags, y).predict_dist(bags)
    ResultSet.of(found, truth=y).write(tmp_path / NAME)
    tensors, texts, header = read_result(tmp_path / NAME)
    write_result(tmp_path / NAME, tensors, texts, header)
    for value in FORGED[name]:
        forged = value if np.ndim(value) else np.full_like(tensors[name], value)
        with pytest.raises(InputError, match=f'array "{name}"'):
            write_result(tmp_path / NAME, tensors | {name: forged}, texts, header)
    with pytest.raises(InputError, match="has shape"):
        write_result(tmp_path / NAME, tensors | {name: np.tile(tensors[name], 2)}, texts, header)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """Tensors, texts and header of a file whose intervals come from draws."""
    path = tmp_path_factory.mktemp("drawn") / NAME
    bags, y, _ = problem()
    ResultSet.of(quick(posterior="sampled").fit(bags, y).predict_dist(bags), truth=y).write(path)
    return read_result(path)


@pytest.mark.parametrize("name", Bounds._fields)
def test_an_interval_with_one_end_is_refused(name, drawn, tmp_path):
    tensors, texts, header = drawn
    less = {key: value for key, value in tensors.items() if key != name}
    with pytest.raises(InputError, match=f'array "{name}" is missing, which comes with .* Write it again with psimil'):
        write_result(tmp_path / NAME, less, texts, header)


@pytest.mark.parametrize(("low", "row"), [("lower", "bag"), ("instance_lower", "instance")])
def test_an_interval_that_is_upside_down_is_refused(low, row, drawn, tmp_path):
    tensors, texts, header = drawn
    high = low.replace("lower", "upper")
    forged = {low: tensors[low].copy(), high: tensors[high].copy()}
    forged[low][5], forged[high][5] = 0.75, 0.25
    said = rf'{row} 5: array "{low}" is above "{high}" \(0.75 > 0.25\); the two may be swapped\. Write it again'
    with pytest.raises(InputError, match=said):
        write_result(tmp_path / NAME, tensors | forged, texts, header)


def test_a_width_without_its_centre_is_refused(tmp_path):
    bags, y, _ = problem()
    ResultSet.of(quick(posterior="variational").fit(bags, y).predict_dist(bags), truth=y).write(tmp_path / NAME)
    tensors, texts, header = read_result(tmp_path / NAME)
    del tensors["centre"]
    with pytest.raises(InputError, match='array "centre" is missing, which comes with "width"'):
        write_result(tmp_path / NAME, tensors, texts, header)


def test_bags_that_were_not_analysed_come_back_with_their_reason(tmp_path):
    bags, y, _ = problem()
    found = quick(posterior="variational").fit(bags, y).predict_dist(bags)
    obstacles = np.array(["a single slice", *[""] * (len(y) - 1)])
    ResultSet.of(replace(found, obstacles=obstacles), truth=y).write(tmp_path / NAME)
    shown = ResultSet.load(tmp_path)
    assert shown.prediction.refer[0] and shown.estimate(0)["reason"] == "could not be analysed: a single slice"
    assert shown.prediction.refer[1:].tolist() == found.refer[1:].tolist()
    assert shown.prediction.reason[1:].tolist() == found.reason[1:].tolist()
    tensors, texts, header = read_result(tmp_path / NAME)
    with pytest.raises(InputError, match="not one note, one series and one obstacle per bag"):
        write_result(tmp_path / NAME, tensors, texts | {"obstacles": ["", ""]}, header)
