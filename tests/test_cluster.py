"""Parts on a Dask cluster: the bits of one process, however many workers there are and whatever happens to them."""

import time
from functools import partial

import numpy as np
import pytest

from faulty_workers import garbage, raising, sleepy, suicidal
from psimil import RBF
from psimil.cluster import DaskParts, predict_parts
from psimil.datasets import make_bags
from psimil.foundations.errors import ClusterFailure, NumericalFailure
from psimil.inference.fitting import first_posterior
from psimil.inference.part_tasks import PartedCollapsedBound, pass_over
from psimil.inference.parts import StreamedParts
from psimil.inference.sparse_gp import SparseGP
from psimil.model.densities import GammaMixture, HyperbolicSecant
from psimil.model.label_posteriors import Labels
from psimil.model.scaling import Scaling
from psimil.store import StoreWriter, open_store

distributed = pytest.importorskip("distributed")
LOCAL = {"dashboard_address": ":0", "threads_per_worker": 1}


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(n_workers=2, processes=True, **LOCAL) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Bags in memory, the same in a store of two parts, and their labels."""
    bags, y, _ = make_bags(n_bags=90, bag_size=(1, 9), n_features=3, seed=2)
    path = tmp_path_factory.mktemp("distributed") / "store"
    for first, last in ((0, 50), (50, 90)):
        with StoreWriter(path, 3, append=first > 0, dtype="float64") as writer:
            for b in range(first, last):
                writer.add(bags[b], int(y[b]), f"b{b:02d}")
    return bags, open_store(path), y


def parts_of(bags, y, density, rows=80):
    weights = np.random.default_rng(0).choice([0.5, 1.0, 2.0], len(bags))
    return StreamedParts(bags.stream, Labels(y, bags.offsets), weights, Scaling.fit(bags.X), density, rows=rows)


def sums(parts):
    """The bits of a pass and of a step of the kernel."""
    gp = SparseGP.build(RBF(2.0, 1.5), np.random.default_rng(1).normal(size=(9, 3)), bias=3.0)
    statistics, log_z = pass_over(parts, gp, first_posterior(gp))
    other = SparseGP.build(RBF(1.0, 2.0), gp.Z, bias=3.0)
    collapsed = PartedCollapsedBound(parts, gp, first_posterior(gp))(other)
    numbers = (statistics.entropy, statistics.bags, log_z, collapsed.value)
    arrays = (statistics.V_theta_V, statistics.V_kappa, collapsed.gradient, collapsed.posterior.R, np.array(numbers))
    return [array.tobytes() for array in arrays]


def one_pass(parts):
    gp = SparseGP.build(RBF(2.0, 1.5), np.random.default_rng(1).normal(size=(9, 3)), bias=3.0)
    statistics, log_z = pass_over(parts, gp, first_posterior(gp))
    return statistics.V_theta_V.tobytes(), statistics.V_kappa.tobytes(), statistics.entropy, log_z


@pytest.mark.parametrize("density", [HyperbolicSecant(), GammaMixture(1.0, 1.0)])
def test_workers_give_the_bits_of_one_process(client, stored, density):
    memory, store, y = stored
    alone = parts_of(memory, y, density)
    expected = sums(alone)
    assert len(alone.chunks) > 4
    assert sums(parts_of(store, y, density)) == expected
    assert sums(DaskParts.of(alone, client, memory)) == expected
    spread = DaskParts.of(parts_of(store, y, density), client, store)
    assert spread.store is not None
    assert sums(spread) == expected
    assert sums(spread) == expected  # now from the rows that the workers keep


def test_the_number_of_workers_and_threads_changes_nothing(client, stored):
    memory, store, y = stored
    expected = sums(DaskParts.of(parts_of(store, y, HyperbolicSecant()), client, store))
    few = {**LOCAL, "n_workers": 1, "processes": False, "threads_per_worker": 3}
    with distributed.LocalCluster(**few) as cluster, distributed.Client(cluster, set_as_default=False) as other:
        assert sums(DaskParts.of(parts_of(store, y, HyperbolicSecant()), other, store)) == expected
        assert sums(DaskParts.of(parts_of(memory, y, HyperbolicSecant()), other, memory)) == expected


def test_some_parts_in_any_order_and_other_densities(client, stored):
    memory, _, y = stored
    alone = parts_of(memory, y, HyperbolicSecant())
    spread = DaskParts.of(alone, client, memory)
    some = [alone.chunks[i] for i in (3, 0, 2)]
    assert list(spread.map(sizes, some)) == list(alone.map(sizes, some)) == [c.stop - c.start for c in some]
    assert list(spread.map(sizes, [])) == []
    other = spread.with_density(GammaMixture(1.0, 1.0))
    assert one_pass(other) == one_pass(alone.with_density(GammaMixture(1.0, 1.0))) != one_pass(spread)
    assert other.held is spread.held and len(spread.held) == len(alone.chunks)  # rows were sent once


def sizes(problem):
    return len(problem.X)


KINDS = ["nan", "inf", "shape", "stale", "other part", "damaged", "nothing", "text"]


@pytest.mark.parametrize("kind", KINDS)
def test_f6_garbage_is_asked_for_again(client, stored, tmp_path, faults, kind):
    memory, _, y = stored
    alone = parts_of(memory, y, HyperbolicSecant())
    spread = DaskParts.of(alone, client, memory, run=partial(garbage, folder=tmp_path, kind=kind))
    assert one_pass(spread) == one_pass(alone)
    assert len(list(tmp_path.iterdir())) == len(alone.chunks) // 2  # every second part was spoiled once
    faults.add("F6", len(alone.chunks) // 2)


@pytest.mark.parametrize(
    ("kind", "message"),
    [("stale", "another round"), ("shape", "wrong shape"), ("damaged", "damaged on its way"), ("text", "no numbers")],
)
def test_after_three_retries_the_part_is_named(client, stored, tmp_path, kind, message):
    memory, _, y = stored
    alone = parts_of(memory, y, HyperbolicSecant())
    spread = DaskParts.of(alone, client, memory, run=partial(garbage, folder=tmp_path, kind=kind, always=True))
    with pytest.raises(ClusterFailure, match=rf"part [2468] of {len(alone.chunks)} failed 4 times .*{message}"):
        one_pass(spread)


def test_sums_that_are_not_finite_anywhere_are_a_numerical_failure(client, stored, tmp_path):
    memory, _, y = stored
    alone = parts_of(memory, y, HyperbolicSecant())
    spread = DaskParts.of(alone, client, memory, run=partial(garbage, folder=tmp_path, kind="nan", always=True))
    with pytest.raises(NumericalFailure, match=r"part [2468] of \d+: the sums are not finite"):
        one_pass(spread)


def test_errors_of_workers(client, stored, tmp_path):
    memory, _, y = stored
    alone = parts_of(memory, y, HyperbolicSecant())
    assert one_pass(DaskParts.of(alone, client, memory, run=partial(raising, folder=tmp_path))) == one_pass(alone)
    assert (tmp_path / "raised").exists()
    with pytest.raises(NumericalFailure, match="positive definite"):  # where one process would raise it
        one_pass(DaskParts.of(alone, client, memory, run=partial(raising, folder=tmp_path, numerical=True)))


def test_another_store_on_the_workers_is_refused(client, stored):
    _, store, y = stored
    spread = DaskParts.of(parts_of(store, y, HyperbolicSecant()), client, store)
    object.__setattr__(spread, "store", (spread.store[0], "0" * 64))
    with pytest.raises(ClusterFailure, match=r"part \d+ of .* the store differs from the one of the fit"):
        one_pass(spread)


def timed_pass(parts):
    started = time.perf_counter()
    found = one_pass(parts)
    return found, time.perf_counter() - started


def test_f7_a_part_that_hangs_is_given_to_another_worker(stored, tmp_path, faults):
    """Parts that take their time on four workers, one of which hangs until the pass is done."""
    memory, _, y = stored
    alone = parts_of(memory, y, HyperbolicSecant(), rows=12)
    expected = one_pass(alone)
    assert len(alone.chunks) > 30
    with (
        distributed.LocalCluster(n_workers=4, processes=True, **LOCAL) as cluster,
        distributed.Client(cluster, set_as_default=False) as four,
    ):
        work, usual = (0.4 if faults.full else 0.05), np.inf
        if faults.full:
            calm = partial(sleepy, folder=tmp_path, number_of_sleeper=-1, usual=work)
            timed_pass(DaskParts.of(alone, four, memory, run=calm))  # workers import what they need
            usual = timed_pass(DaskParts.of(alone, four, memory, run=calm))[1]
        for turn in range(faults.repeats("F7")):
            folder = tmp_path / f"{turn}"
            folder.mkdir()
            run = partial(sleepy, folder=folder, number_of_sleeper=3 * turn % len(alone.chunks), usual=work)
            found, seconds = timed_pass(DaskParts.of(alone, four, memory, timeout=2.0, retries=30, run=run))
            (folder / "awake").touch()
            assert found == expected and (folder / "slept").exists()
            assert seconds < 3 * usual  # only measured in a full run
            faults.add("F7")


def test_predictions_have_the_bits_of_one_process(client, stored, monkeypatch):
    from psimil import VGPMIL
    from psimil.cluster import prediction
    from psimil.inference import problem, trained

    memory, store, y = stored
    model = VGPMIL(n_inducing=6, max_iter=5, tol=0, random_state=0, calibrate=True).fit(memory, y).model_
    monkeypatch.setattr(problem, "CHUNK_BYTES", 64)  # chunks of 64 rows here, one chunk on the workers: no difference
    for module in (trained, prediction):
        monkeypatch.setattr(module, "ROWS", 200)
    monkeypatch.setattr(prediction, "PART_ROWS", 64)
    assert len(prediction.part_cuts(len(memory.X), 64)) > 6
    expected = model.latent(memory.X)
    for bags in (memory, store):
        found = predict_parts(model, bags, client)
        for one, two in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, two)
    raw = predict_parts(model, store, client, raw=True)
    np.testing.assert_array_equal(raw[0], model.latent(memory.X, raw=True)[0])


# Last, for the cluster has new workers afterwards


def test_f5_killed_workers_leave_no_trace(client, stored, tmp_path, faults):
    memory, store, y = stored
    alone = parts_of(store, y, HyperbolicSecant())
    before = set(client.nthreads())
    for times, bags in ((2, store), (1, memory)):
        folder = tmp_path / str(times)
        folder.mkdir()
        spread = DaskParts.of(alone, client, bags, run=partial(suicidal, folder=folder, times=times))
        first = one_pass(spread)
        assert one_pass(spread) == first == one_pass(alone)
        assert len(list(folder.iterdir())) == times
        faults.add("F5", times)
    assert set(client.nthreads()) != before
