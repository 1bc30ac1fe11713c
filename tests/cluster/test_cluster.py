"""Shards on a Dask cluster: the bits of one process, however many workers there are and whatever happens to them."""

import os
import shutil
import signal
import subprocess
from dataclasses import replace

import numpy as np
import pytest

from faulty_workers import Disturbed, Raise, Signal, Sleep, not_finite
from psimil import RBF
from psimil.cluster import DaskShards, connect, predict_bags, predict_ranges, workforce
from psimil.datasets import make_bags
from psimil.foundations.errors import ClusterFailure, InputError, NumericalFailure
from psimil.foundations.logistic import antithetic_draws
from psimil.inference.bag_pass import bag_pass_over
from psimil.inference.draws import Draws
from psimil.inference.shards import StreamedShards
from psimil.model.bag_likelihoods import Labels
from psimil.model.densities import GammaMixture, HyperbolicSecant
from psimil.model.scaling import Scaling
from psimil.model.sparse_gp import KernelState, SparseGP
from psimil.paper.ascent import pass_over
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
def four():
    """A client of four workers, some of which hang."""
    with (
        distributed.LocalCluster(n_workers=4, processes=True, **LOCAL) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
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


def parts_of(bags, y, density, rows=80, single=False):
    weights = np.random.default_rng(0).choice([0.5, 1.0, 2.0], len(bags))
    labels, scaling = Labels(y, bags.offsets), Scaling.fit(bags.X)
    return StreamedShards(bags.stream, labels, weights, scaling, density, rows=rows, single=single)


def sums(parts):
    """The bits of a pass of either posterior."""
    gp = SparseGP.build(RBF(2.0, 1.5), np.random.default_rng(1).normal(size=(9, 3)), bias=3.0)
    state = KernelState.first(gp)
    found = pass_over(parts, gp, state.posterior)
    statistics = found.statistics
    noise = antithetic_draws(gp.size, 8, seed=3)
    numbers = [statistics.entropy, statistics.bags, found.bound.log_z]
    arrays = [statistics.V_theta_V, statistics.V_kappa]
    for draws in (Draws.shared(noise), Draws(np.stack([noise, -0.5 * noise]), group=7)):
        bag_sums, _ = bag_pass_over(parts, gp, draws.of(state.posterior), tilted=True)
        numbers += [bag_sums.log_z, bag_sums.tilted]
        arrays += [bag_sums.curvature, bag_sums.gradient, bag_sums.likelihood]
    arrays.append(np.array(numbers))
    return [array.tobytes() for array in arrays]


def one_pass(parts):
    gp = SparseGP.build(RBF(2.0, 1.5), np.random.default_rng(1).normal(size=(9, 3)), bias=3.0)
    found = pass_over(parts, gp, KernelState.first(gp).posterior)
    statistics = found.statistics
    return statistics.V_theta_V.tobytes(), statistics.V_kappa.tobytes(), statistics.entropy, found.bound.log_z


@pytest.mark.parametrize(
    ("density", "single"), [(HyperbolicSecant(), False), (HyperbolicSecant(), True), (GammaMixture(1.0, 1.0), False)]
)
def test_workers_give_the_bits_of_one_process(client, stored, density, single):
    memory, store, y = stored
    alone = parts_of(memory, y, density, single=single)
    expected = sums(alone)
    assert len(alone.ranges) > 4
    assert sums(parts_of(store, y, density, single=single)) == expected
    assert sums(DaskShards(alone, client, memory)) == expected
    spread = DaskShards(parts_of(store, y, density, single=single), client, store)
    assert spread.store is not None
    assert sums(spread) == expected
    assert sums(spread) == expected  # now from the rows that the workers keep


def test_the_number_of_workers_and_threads_changes_nothing(client, stored):
    memory, store, y = stored
    expected = sums(DaskShards(parts_of(store, y, HyperbolicSecant()), client, store))
    few = {**LOCAL, "n_workers": 1, "processes": False, "threads_per_worker": 3}
    with distributed.LocalCluster(**few) as cluster, distributed.Client(cluster, set_as_default=False) as other:
        assert sums(DaskShards(parts_of(store, y, HyperbolicSecant()), other, store)) == expected
        assert sums(DaskShards(parts_of(memory, y, HyperbolicSecant()), other, memory)) == expected


def test_some_parts_in_any_order_and_other_densities(client, stored):
    memory, _, y = stored
    alone = parts_of(memory, y, HyperbolicSecant())
    spread = DaskShards(alone, client, memory)
    some = [alone.ranges[i] for i in (3, 0, 2)]
    assert list(spread.map(sizes, some)) == list(alone.map(sizes, some)) == [c.stop - c.start for c in some]
    assert list(spread.map(sizes, [])) == []
    other = replace(alone, density=GammaMixture(1.0, 1.0))
    assert one_pass(DaskShards(other, client, memory)) == one_pass(other) != one_pass(spread)
    assert len(spread.scattered) == len(alone.ranges)  # rows were sent once


def sizes(problem):
    return len(problem.X)


def test_sums_that_are_not_finite_are_a_numerical_failure(client, stored):
    memory, _, y = stored
    spread = DaskShards(parts_of(memory, y, HyperbolicSecant()), client, memory)
    gp = SparseGP.build(RBF(2.0, 1.5), np.random.default_rng(1).normal(size=(9, 3)), bias=3.0)
    found = pass_over(Disturbed(spread, after=not_finite), gp, KernelState.first(gp).posterior)
    with pytest.raises(NumericalFailure, match="non-finite"):
        found.next_posterior  # noqa: B018 - works it out


def test_errors_of_workers(client, stored, tmp_path):
    memory, _, y = stored
    alone = parts_of(memory, y, HyperbolicSecant())
    spread = DaskShards(alone, client, memory)
    assert one_pass(Disturbed(spread, before=Raise(tmp_path))) == one_pass(alone)
    assert (tmp_path / "raised").exists()
    with pytest.raises(NumericalFailure, match="positive definite"):  # where one process would raise it
        one_pass(Disturbed(spread, before=Raise(tmp_path, numerical=True)))


def test_another_store_on_the_workers_is_refused(client, stored):
    _, store, y = stored
    spread = DaskShards(parts_of(store, y, HyperbolicSecant()), client, store)
    spread.store = (spread.store[0], "0" * 64)
    with pytest.raises(ClusterFailure, match=r"shard \d+ of .* the store differs from the one of the fit"):
        one_pass(spread)


def test_f7_a_shard_that_hangs_is_given_to_another_worker(four, stored, tmp_path, faults):
    """Shards that take their time on four workers, one of which hangs until the pass is done."""
    memory, _, y = stored
    alone = parts_of(memory, y, HyperbolicSecant(), rows=12)
    expected = one_pass(alone)
    assert len(alone.ranges) > 30
    work = 0.4 if faults.full else 0.05
    for turn in range(faults.repeats("F7")):
        folder = tmp_path / f"{turn}"
        folder.mkdir()
        hanging = Sleep(folder, work, sleeper=3 * turn % len(alone.ranges))
        spread = DaskShards(alone, four, memory, timeout=2.0, retries=30)
        found = one_pass(Disturbed(spread, before=hanging))
        assert found == expected and (folder / "slept").exists()  # it sleeps on while the pass is done
        (folder / "awake").touch()
        faults.add("F7")


@pytest.mark.parametrize("where", ["memory", pytest.param("store", marks=pytest.mark.slow)])
def test_f7_a_stopped_worker_is_done_without(four, stored, tmp_path, faults, where):
    """SIGSTOP: the process is there and its connections are open, but it neither works nor answers."""
    memory, store, y = stored
    bags = memory if where == "memory" else store
    alone = parts_of(bags, y, HyperbolicSecant(), rows=25)
    spread = DaskShards(alone, four, bags, timeout=2.0, retries=30)
    spread = Disturbed(spread, since=2, before=Signal(tmp_path, number=signal.SIGSTOP))
    try:
        assert [one_pass(spread) for _ in range(4)] == [one_pass(alone)] * 4  # from the third on without it
    finally:
        stopped = [int(file.read_text()) for file in tmp_path.iterdir()]
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    assert len(stopped) == 1
    faults.add("F7")


@pytest.fixture
def security(tmp_path):
    """Files of an authority that signs itself, as a user would make them."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is needed to make certificates")
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=psimil-test"]
    subprocess.run([*command, "-keyout", key, "-out", cert], check=True, capture_output=True)
    names = {f"tls_{who}_{what}": str(file) for who in ("client", "scheduler", "worker")
             for what, file in (("key", key), ("cert", cert))}  # fmt: skip
    return distributed.Security(tls_ca_file=str(cert), require_encryption=True, **names)


def test_an_encrypted_cluster_lets_in_those_with_a_certificate(stored, security, monkeypatch):
    import dask

    memory, _, y = stored
    alone = parts_of(memory, y, HyperbolicSecant())
    monkeypatch.setattr(workforce, "ANSWER_WITHIN", 2)
    files = {"ca-file": "tls_ca_file", "client.key": "tls_client_key", "client.cert": "tls_client_cert"}
    settings = {f"distributed.comm.tls.{name}": getattr(security, field) for name, field in files.items()}
    with distributed.LocalCluster(
        n_workers=1, processes=False, protocol="tls://", security=security, **LOCAL
    ) as cluster:
        address = cluster.scheduler_address
        assert address.startswith("tls://")
        with connect(address, security) as client:
            assert one_pass(DaskShards(alone, client, memory)) == one_pass(alone)
        with dask.config.set(settings), connect(address) as client:  # as for --cluster
            assert one_pass(DaskShards(alone, client, memory)) == one_pass(alone)
        with pytest.raises(InputError, match=f"no Dask scheduler answers at {address}"):
            connect(address)


@pytest.mark.parametrize(("context", "sharing"), [(None, 0.0), ("bag", 0.0), (None, 0.6)])
def test_predictions_have_the_bits_of_one_process(client, stored, monkeypatch, context, sharing):
    from psimil import VGPMIL
    from psimil.compute import numpy_backend
    from psimil.predictive import trained

    memory, store, y = stored
    settings = {"n_inducing": 6, "max_iter": 5, "tol": 0, "random_state": 0, "calibrate": True, "context": context}
    model = replace(VGPMIL(**settings).fit(memory, y).model_, sharing=sharing)
    monkeypatch.setattr(numpy_backend, "CHUNK_BYTES", 64)  # chunks of 64 rows here, one on a worker
    monkeypatch.setattr(trained, "ROWS", 16 * 200)
    expected = model.predict(memory)
    assert sharing == 0 or np.abs(expected.prob - replace(model, sharing=0.0).predict(memory).prob).max() > 1e-3
    for bags in (memory, store):
        found = predict_bags(model, bags, client)
        for name in ("latent_mean", "latent_variance", "prob", "std"):
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


@pytest.mark.parametrize("settings", [{"labels": "chain"}, {"labels": "chain", "context": "bag"}, {}], ids=str)
def test_predictions_of_whole_bags_are_those_of_one_process(client, stored, monkeypatch, settings):
    """A mean over draws of q(v), for which parts are whole bags, with gaps; without J, that of independent labels."""
    from psimil import VGPMIL, Bags
    from psimil.predictive import trained

    memory, store, y = stored
    links = np.where(np.arange(len(memory.X)) % 5, memory.in_order().links, 0.0)
    gapped = Bags(memory.X, memory.offsets, links=links)
    model = VGPMIL(n_inducing=6, max_iter=5, tol=0, random_state=0, **settings).fit(gapped, y).model_
    assert bool(model.coupling) == bool(settings)
    monkeypatch.setattr(trained, "ROWS", 512 * 60)  # parts of sixty instances at most
    assert not settings or np.abs(model.predict(gapped).prob - model.predict(memory).prob).max() > 1e-4
    for one in (model, replace(model, coupling=0.0)):
        for bags in (gapped, store, replace(store, links=links)):
            found, expected = predict_bags(one, bags, client), one.predict(bags)
            assert found.ids is bags.ids
            for name in ("prob", "std", "log_odds", "lower", "upper", "instance_prob", "instance_novelty"):
                np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("labels", [None, "chain"])
def test_ranges_are_those_of_one_process(client, stored, monkeypatch, labels):
    from psimil import VGPMIL
    from psimil.predictive import predicted_ranges, trained

    memory, store, y = stored
    clf = VGPMIL(n_inducing=6, max_iter=5, tol=0, random_state=0, labels=labels or "independent").fit(memory, y)
    monkeypatch.setattr(trained, "ROWS", 512 * 60 if labels else 16 * 50)
    for bags in (memory, store):
        expected = list(predicted_ranges.predict_ranges(clf.model_, bags, 150))
        found = list(predict_ranges(clf.model_, bags, client, 150))
        assert len(found) == len(expected) > 2
        for one, two in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one.ids, two.ids)
            np.testing.assert_array_equal(one.offsets, two.offsets)
            for name in ("prob", "std", "lower", "upper", "instance_prob", "instance_novelty"):
                np.testing.assert_allclose(getattr(one, name), getattr(two, name), rtol=1e-12, atol=1e-14)


# Last, for the cluster has new workers afterwards


def test_f5_killed_workers_leave_no_trace(client, stored, tmp_path, faults):
    memory, store, y = stored
    alone = parts_of(store, y, HyperbolicSecant())
    before = set(client.nthreads())
    for times, bags in ((2, store), (1, memory)):
        folder = tmp_path / str(times)
        folder.mkdir()
        spread = Disturbed(DaskShards(alone, client, bags), since=2, before=Signal(folder, times))
        first = one_pass(spread)
        assert one_pass(spread) == first == one_pass(alone)
        assert len(list(folder.iterdir())) == times
        faults.add("F5", times)
    assert set(client.nthreads()) != before
