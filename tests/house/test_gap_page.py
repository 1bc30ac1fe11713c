"""scripts/write_gap.py: the page on the gap says what was measured, and what is measured is what a fit gives."""

import json
import runpy
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

from gap import parts, posteriors, referring, simulated
from gap.real import over_seeds

from psimil import VGPMIL
from psimil.datasets import make_bags
from psimil.foundations import hamiltonian
from psimil.inference.shards import Shard
from psimil.model.bag_likelihoods import Labels
from psimil.model.densities import HyperbolicSecant
from psimil.model.kernels import RBF
from psimil.model.sparse_gp import Posterior

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "docs" / "images"


def written(docs, *arguments):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["write_gap.py", str(docs), *arguments])
        runpy.run_path(str(ROOT / "scripts" / "write_gap.py"), run_name="__main__")
    return (docs / "mathematics" / "inference-gap.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    docs = tmp_path_factory.mktemp("docs")
    return docs, written(docs, "--quick")


@pytest.fixture
def copied(tmp_path):
    (tmp_path / "images").mkdir()
    for path in IMAGES.glob("gap*"):
        (tmp_path / "images" / path.name).write_bytes(path.read_bytes())
    return tmp_path


def test_a_quick_run_writes_every_table_figure_and_number(quick):
    docs, text = quick
    found = {path.name for path in (docs / "images").iterdir()}
    figures = {f"gap-{name}.png" for name in ("coverage", "ratios", "real", "referral")}
    assert found == {f"{name}.csv" for name in parts.TABLES} | figures | {"gap.json"}
    assert "<!--" not in text and "nan" not in text
    assert "Left out here, since their files were not given: RSNA" in text
    assert all(name in text for name in figures)
    rows = pd.read_csv(docs / "images" / "gap-size.csv")
    assert set(rows["posterior"]) == set(simulated.METHODS)
    assert rows["ratio"].notna().sum() == parts.QUICK.simulation.compared * len(simulated.METHODS)


def test_a_part_measured_again_leaves_the_others_as_they_are(quick):
    docs, _ = quick
    before = {path.name: path.read_bytes() for path in (docs / "images").glob("*.csv")}
    written(docs, "--quick", "--only", "oracle")
    after = {path.name: path.read_bytes() for path in (docs / "images").glob("*.csv")}
    assert after == before  # seeds make even the new part the same


def test_the_page_says_what_the_tables_say(copied):
    found = written(copied, "--page-only")
    assert found == (ROOT / "docs" / "mathematics" / "inference-gap.md").read_text(encoding="utf-8")
    assert "<!--" not in found and "Left out" not in found


def test_the_page_follows_the_tables(copied):
    table = pd.read_csv(copied / "images" / "gap-size.csv")
    table.loc[table["posterior"] == "augmented", "inside_95"] = 0.12345
    table.to_csv(copied / "images" / "gap-size.csv", index=False)
    facts = json.loads((copied / "images" / "gap.json").read_text())
    facts["size"]["commit"] = "f" * 40
    (copied / "images" / "gap.json").write_text(json.dumps(facts))
    found = written(copied, "--page-only")
    assert "0.123 ± 0.000" in found and "- 12 / 12 / 12 %" in found
    assert "`ffffffffff`" in found


def test_the_measured_oracle_passed_its_own_test_and_no_bound_lies_above_the_evidence():
    ranks, bounds = pd.read_csv(IMAGES / "gap-ranks.csv"), pd.read_csv(IMAGES / "gap-bounds.csv")
    assert (ranks["p_value"] > 1e-3).all()
    last = ranks[ranks["data_sets"] == ranks.groupby("problem")["data_sets"].transform("max")]
    assert set(last["problem"]) == set(bounds["problem"])
    assert (last["distance"] < last["band"]).all()
    for rule in ("exact", "mean_field"):
        assert (bounds[rule] < bounds["log_p"] + 4 * bounds["error"]).all()
    given = bounds.dropna()
    assert len(given) and (given["variational"] < given["log_p"] + 4 * given["error"] + 0.02).all()
    assert (given["variational"] > given["exact"]).all()
    assert (bounds["effective_samples"] > 5000).all()


def test_the_measured_intervals_hold_what_those_of_the_oracle_hold():
    size = simulated.coverage_summary(pd.read_csv(IMAGES / "gap-size.csv")).set_index(["posterior", "largest_bag"])
    assert (size["data_sets"] >= 100).all() and set(size.loc["oracle"].index) == {5, 12, 35}
    assert (size.loc["variational", "difference"].abs() < 0.04).all()
    assert (size.loc["sampled", "difference"].abs() < 0.02).all()


def test_the_measured_posteriors_are_close_to_long_sampling_on_real_data():
    real = over_seeds(pd.read_csv(IMAGES / "gap-real.csv")).set_index(["posterior", "data"])
    assert len(real.loc["variational"]) == 4
    assert real.loc["variational", "ratio"].between(0.9, 1.1).all()
    error = real["probability_error"]
    assert (error.loc["variational"] < 0.2 * error.loc["augmented"]).all()
    assert (real["r_hat"] < 1.01).all()


def test_several_seeds_become_a_mean_and_a_range(quick):
    docs, text = quick
    rows = pd.read_csv(docs / "images" / "gap-real.csv")
    assert list(rows["seed"]) == [2026, 2026, 2027]
    assert rows["ratio"].nunique() == 3  # other draws, another q(v)
    found = over_seeds(rows).set_index("posterior").loc["variational"]
    assert found["ratio"] == pytest.approx(rows["ratio"][1:].mean()) and found["seeds"] == 2
    assert f"({found['ratio_least']:.2f} to {found['ratio_most']:.2f})" in text


@pytest.mark.parametrize("name", ["augmented", "variational"])
def test_what_is_measured_is_what_a_fit_gives(name):
    bags, y, _ = make_bags(30, n_features=2, seed=3)
    model = VGPMIL(n_inducing=6, kernel=RBF(2.0, 1.0), hyperparameters=None, posterior=name, random_state=1)
    model = model.fit(bags, y).model_
    X = model.scaling.apply(bags.X)
    shard = Shard(X, Labels(y, bags.offsets), np.ones(len(y)), HyperbolicSecant(), keep=True)
    found = (
        posteriors.augmented(shard, model.gp)
        if name == "augmented"
        else posteriors.variational(shard, model.gp, model.seed)
    )
    np.testing.assert_allclose(found.m, model.posterior.m, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.S, model.posterior.S, rtol=1e-9, atol=1e-9)


def test_places_among_draws_are_uniform_however_few_they_are():
    rng = np.random.default_rng(0)
    f = rng.normal(size=(3, 40_000))
    found = posteriors.drawn_answer(f, rng.normal(size=40_000), rng)
    assert found.inside(0.95).mean() == pytest.approx(0.95, abs=0.005)
    assert found.inside(0.5).mean() == pytest.approx(0.5, abs=0.01)


def test_a_gaussian_answer_holds_what_it_claims_and_is_at_no_distance_from_itself():
    _, gp, X, _ = simulated.layout(simulated.Simulation(new_bags=40), 0)
    rng = np.random.default_rng(0)
    v = rng.standard_normal((200, gp.size))
    q = Posterior.prior(gp.size)
    shares = [posteriors.gaussian_answer(gp, q, X, f).inside(0.8).mean() for f in v @ gp.features(X).T]
    assert np.mean(shares) == pytest.approx(0.8, abs=0.06)
    found = posteriors.gaussian_answer(gp, q, X)
    assert posteriors.distance(found, found) == {
        "ratio": 1.0, "ratio_low": 1.0, "ratio_high": 1.0, "probability_error": 0.0, "mean_error": 0.0
    }  # fmt: skip
    drawn = posteriors.chain_answer(gp, rng.standard_normal((4000, gp.size)), X)
    assert posteriors.distance(drawn, found)["ratio"] == pytest.approx(1.0, abs=0.05)


def test_long_sampling_hands_on_every_draw():
    before = hamiltonian.KEPT
    problem, gp, _, _ = simulated.layout(simulated.Simulation(bags=4, inducing=2), 0)
    found, _ = posteriors.long_chains(problem, gp, Posterior.prior(gp.size), np.random.default_rng(0), 64, 9)
    assert len(found.v) == 64 * 9 > before == hamiltonian.KEPT


def test_the_summary_pairs_every_posterior_with_the_oracle_on_the_same_data():
    common = {"varied": "bag size", "largest_bag": 5, "bags": 20, "layout": 0, "inside_50": 0.5, "inside_80": 0.8,
              "probability_error": 0.1, "ratio": 1.0, "seconds": 1.0, "r_hat": 1.0, "effective": 9.0}  # fmt: skip
    shares = {("oracle", 0): 0.9, ("oracle", 1): 1.0, ("augmented", 0): 0.5, ("augmented", 1): 0.8}
    rows = [{**common, "posterior": name, "data_set": i, "inside_95": share} for (name, i), share in shares.items()]
    found = simulated.coverage_summary(pd.DataFrame(rows)).set_index("posterior")
    assert found.loc["augmented", "difference"] == pytest.approx(-0.3)
    assert found.loc["augmented", "difference_error"] == pytest.approx(0.1)
    assert found.loc["oracle", ["difference", "data_sets"]].tolist() == [0.0, 2]


def test_referral_summary_is_the_mean_error_over_repeats():
    rows = [
        {"data": "a", "model": "m", "repeat": r, "fraction_kept": kept, "error": e}
        for r, errors in enumerate(([0.0, 0.2], [0.2, 0.4]))
        for kept, e in zip((0.9, 1.0), errors, strict=True)
    ]
    found = referring.referral_summary(pd.DataFrame(rows), (0.0, 0.1)).iloc[0]
    assert found["0"] == pytest.approx(0.3) and found["10"] == pytest.approx(0.1)
