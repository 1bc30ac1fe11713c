"""Stored bags are Bags: same rows, same slices, same models, in one part or several."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from commands import QUICK as QUICK_OPTIONS
from commands import call, frame_of
from psimil import VGPMIL, Bags
from psimil.foundations.errors import InputError
from psimil.paper.baselines.statistics import bag_statistics
from psimil.store import StoreWriter, import_bags, open_store
from psimil.store.tables import read_bags
from tiny import QUICK, problem


@pytest.fixture(params=[1, 3])
def stored(request, tmp_path):
    """The small problem in a store of one part or several, and the same Bags."""
    bags, y, known = problem()
    cuts = np.linspace(0, len(bags), request.param + 1).astype(int)
    for number, (a, b) in enumerate(pairwise(cuts)):
        with StoreWriter(tmp_path / "store", 3, dtype="float64" if number == 0 else None, append=number > 0) as writer:
            writer.add_many(
                Bags(bags[a:b].X, bags[a:b].offsets, bags.names[a:b]), y[a:b], np.concatenate(bags.split(known)[a:b])
            )
    store = open_store(tmp_path / "store", verify=True)
    assert isinstance(store.X, np.memmap) == (request.param == 1)
    return store, bags, y, known


def test_it_is_bags(stored):
    store, bags, y, known = stored
    assert len(store) == len(bags) and store.shape == bags.shape and store.n_features == 3
    np.testing.assert_array_equal(np.asarray(store.X), bags.X)
    assert (store.X.shape, store.X.dtype, store.X.itemsize, store.X.ndim) == (bags.X.shape, bags.X.dtype, 8, 2)
    np.testing.assert_array_equal(store.y, y)
    np.testing.assert_array_equal(store.y_instances, known)
    mask = np.arange(len(bags)) % 3 == 0
    for key in (slice(2, 20), slice(None, None, -2), mask, np.array([7, 3, -1]), [0, 23], np.array([], dtype=int)):
        found = store[key]
        assert type(found) is Bags
        np.testing.assert_array_equal(found.X, bags[key].X)
        np.testing.assert_array_equal(found.names, bags[key].names)
    for number in (0, 9, -1):
        np.testing.assert_array_equal(store[number], bags[number])
    for mine, theirs in zip(store, bags, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    rows = np.random.default_rng(0).permutation(len(bags.X))
    for key in (5, -2, slice(3, 60), slice(None), slice(9, 2), rows, rows < 20, (slice(1, 50), 2), (3, slice(0, 2))):
        np.testing.assert_array_equal(store.X[key], bags.X[key])
    for key in (len(bags.X), [len(bags.X)], np.ones(3, bool)):
        with pytest.raises(IndexError):
            store.X[key]
    scaled = replace(store, X=store.X.astype(np.float32))  # as the baselines do
    np.testing.assert_array_equal(scaled[5], bags[5].astype(np.float32))
    table = store.table()
    assert table.bags is store and table.y_instances.dtype == np.int64


def test_fit_and_predict_are_bit_identical(stored):
    store, bags, y, known = stored
    mine, theirs = (VGPMIL(**QUICK).fit(b, y, y_instances=b.split(known)) for b in (store, bags))
    np.testing.assert_array_equal(mine.label_posterior_, theirs.label_posterior_)
    a, b = mine.predict_dist(store), theirs.predict_dist(bags)
    for name in ("prob", "std", "latent_mean", "latent_variance"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    np.testing.assert_array_equal(bag_statistics(store), bag_statistics(bags))


def test_tables_and_commands_take_a_store(tmp_path):
    frame_of().to_csv(tmp_path / "train.csv", index=False)
    import_bags(tmp_path / "train.csv", tmp_path / "store", dtype="float64")
    table, stored = read_bags(tmp_path / "train.csv"), read_bags(tmp_path / "store")
    np.testing.assert_array_equal(stored.bags.X, table.bags.X)
    np.testing.assert_array_equal(stored.y, table.y)
    for name in ("train.csv", "store"):
        done = call("fit", tmp_path / name, "--out", tmp_path / f"run-{name}", *QUICK_OPTIONS)
        assert done.exit_code == 0, done.output
    runs = [pd.read_csv(tmp_path / f"run-{name}" / "bags.csv").sort_values("bag") for name in ("train.csv", "store")]
    pd.testing.assert_frame_equal(*(run.reset_index(drop=True) for run in runs), check_exact=True)
    with pytest.raises(InputError, match=r"a folder of slides, or a store of psimil data import"):
        read_bags(tmp_path)


def rising(bags, missing=5):
    """Positions along every bag in steps of 2.5, the third of the largest bags missing."""
    found = [2.5 * np.arange(n) + 2.5 * ((np.arange(n) > 2) & (n > missing)) for n in bags.sizes]
    assert any(np.ptp(np.diff(part)) > 0 for part in found if len(part) > 1)
    return found


@pytest.mark.parametrize(
    "places", ["none", *(pytest.param(p, marks=pytest.mark.slow) for p in ("rising", "falling")), "mixed"]
)
def test_an_order_that_agrees_with_the_rows_reads_no_feature(stored, monkeypatch, places):
    """Links are those of the same bags in memory, or of these turned round."""
    store, bags, y, _ = stored
    sign = {"rising": [1.0], "falling": [-1.0], "mixed": [1.0, -1.0]}.get(places, [1.0])
    positions = np.concatenate([sign[b % len(sign)] * part for b, part in enumerate(rising(bags))])
    expected = bags.in_order() if places == "none" else bags.in_order(np.concatenate(rising(bags)))
    monkeypatch.setattr(np, "ascontiguousarray", lambda *of, **how: pytest.fail("rows were read"))
    monkeypatch.setattr(Bags, "__post_init__", lambda self: pytest.fail("rows were checked"))
    ordered = store.in_order(None if places == "none" else positions)
    monkeypatch.undo()
    assert type(ordered) is type(store) and ordered.X is store.X and ordered.path == store.path
    np.testing.assert_array_equal(ordered.links, expected.links)
    np.testing.assert_array_equal(ordered[3:9].links, expected[3:9].links)
    settings = {**QUICK, "labels": "chain", "max_iter": 3, "tol": 0.0}
    one, two = (VGPMIL(**settings).fit(some, y).predict_dist(some) for some in (ordered, expected))
    np.testing.assert_array_equal(one.instance_prob, two.instance_prob)
    assert store.links is None


def test_an_order_that_needs_other_rows_is_refused_with_the_bag(stored):
    store, bags, _, _ = stored
    positions = np.concatenate(rising(bags))
    b = int(np.flatnonzero(bags.sizes > 2)[1])
    start = bags.offsets[b]
    positions[[start, start + 1]] = positions[[start + 1, start]]
    with pytest.raises(InputError, match=f"rows of bag {bags.names[b]} of store are not in the order.*Sort them"):
        store.in_order(positions)
    with pytest.raises(InputError, match="finite numbers, one for each instance"):
        store.in_order(np.full(len(positions), np.nan))
    with pytest.raises(InputError):
        store.in_order(positions[:-1])
