"""Whole fits on a Dask cluster, and from a checkpoint: the model of one process that was never interrupted."""

import gc
import os
import random
import signal
import threading
import time
from functools import partial

import numpy as np
import pytest

from commands import call, fails, frame_of
from psimil import GVGPMIL, VGPMIL
from psimil.cluster import DaskShards, connect, workforce
from psimil.cluster.checkpoint import FORMAT, KIND
from psimil.datasets import make_bags
from psimil.files.sealed import seal, unseal
from psimil.foundations.errors import ClusterFailure, InputError
from psimil.inference import training
from psimil.store import StoreWriter, open_store

dask, distributed = pytest.importorskip("dask"), pytest.importorskip("distributed")
LOCAL = {"dashboard_address": ":0", "threads_per_worker": 1, "n_workers": 2}
# LocalCluster ends a worker that is away 15 seconds after it was killed, be it for another kill meanwhile
PATIENT = {"distributed.deploy.lost-worker-timeout": "10 minutes"}
SETTINGS = {"n_inducing": 6, "random_state": 0, "chunk_size": 120, "max_iter": 12, "tol": 1e-9}
SETTINGS |= {"calibrate": False, "threshold": 0.5, "false_positive_rate": None}  # nothing that is learned afterwards
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def local():
    with dask.config.set(PATIENT), distributed.LocalCluster(processes=True, **LOCAL) as running:
        yield running


@pytest.fixture(scope="module")
def client(local):
    with distributed.Client(local, set_as_default=False) as client:
        yield client


@pytest.fixture(scope="module")
def data():
    return make_bags(n_bags=100, bag_size=(2, 8), n_features=3, separation=2.5, seed=3)[:2]


@pytest.fixture(autouse=True)
def always_streamed(monkeypatch):
    monkeypatch.setattr(training, "LARGE", 0)


def bits(model):
    """What a fit leaves, to the last bit."""
    found = model.model_
    arrays = (found.gp.Z, found.gp.L, found.posterior.m, found.posterior.R, np.array([found.threshold]))
    bounds = [(row["stage"], row["iteration"], row["elbo"]) for row in model.history_]
    return [array.tobytes() for array in arrays], bounds, found.calibration, model.converged_, found.context_evidence


CASES = {
    "passes": (VGPMIL, {}),
    "augmented": (GVGPMIL, {}),
    "minibatches": (VGPMIL, {"batch_bags": 20}),
    "augmented minibatches": (GVGPMIL, {"batch_bags": 20}),
    "judged context": (partial(VGPMIL, context="auto"), {}),
}
each = pytest.mark.parametrize("name", list(CASES))


@pytest.fixture(scope="module")
def alone(data):
    """The bits of every case, in one process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "LARGE", 0)
        return {name: bits(estimator(**SETTINGS).fit(*data, **more)) for name, (estimator, more) in CASES.items()}


@each
def test_a_fit_on_a_cluster_is_a_fit(client, data, alone, name):
    estimator, more = CASES[name]
    assert bits(estimator(**SETTINGS).fit(*data, client=client, **more)) == alone[name]


def test_workers_read_a_store_in_context(client, data, tmp_path):
    bags, y = data
    with StoreWriter(tmp_path / "store", 3, dtype="float64") as writer:
        for b, bag in enumerate(bags):
            writer.add(bag, int(y[b]), str(b))
    spread = VGPMIL(context="bag", **SETTINGS).fit(open_store(tmp_path / "store"), y, client=client)
    assert bits(spread) == bits(VGPMIL(context="bag", **SETTINGS).fit(bags, y))


class Stop(Exception):
    pass


@pytest.mark.parametrize(
    ("name", "after"),
    [
        ("passes", 0),
        pytest.param("passes", 1, marks=pytest.mark.slow),
        ("passes", 3),
        ("augmented", 6),
        pytest.param("minibatches", 1, marks=pytest.mark.slow),
        ("minibatches", 9),
        ("augmented minibatches", 5),
        pytest.param("judged context", 0, marks=pytest.mark.slow),
        ("judged context", 2),
    ],
)
def test_a_fit_goes_on_from_its_checkpoint(data, alone, tmp_path, name, after):
    estimator, more = CASES[name]
    file, seen = tmp_path / "fit.part", []
    kernel = sum(
        stage in ("context", "kernel") for stage, *_ in alone[name][1]
    )  # its steps are done before the first pass is kept

    def interrupt(row):
        seen.append(row)
        if len(seen) == kernel + after + 1:
            raise Stop

    with pytest.raises(Stop):
        estimator(**SETTINGS).fit(*data, checkpoint=file, callbacks=[interrupt], **more)
    again = []
    found = estimator(**SETTINGS).fit(*data, checkpoint=file, callbacks=[again.append], **more)
    assert bits(found) == alone[name]
    left = len(alone[name][1]) - (kernel + after if after else 0)
    assert kernel > 1 and len(again) == left
    once_more = estimator(**SETTINGS).fit(*data, checkpoint=file, callbacks=[again.append], **more)
    assert bits(once_more) == alone[name]
    assert len(again) == left  # there was nothing left to do


def test_checkpoints_of_other_fits_and_damaged_ones_are_refused(data, tmp_path):
    bags, y = data
    file = tmp_path / "fit.part"
    short = {**SETTINGS, "max_iter": 2}
    VGPMIL(**short).fit(bags, y, checkpoint=file).save(tmp_path / "model.safetensors")
    good = file.read_bytes()
    for model, labels in [
        (VGPMIL(**{**short, "random_state": 1}), y),
        (VGPMIL(**{**short, "H": 100.0}), y),
        (VGPMIL(**short), 1 - y),
        (GVGPMIL(**short), y),
    ]:
        with pytest.raises(InputError, match=r"checkpoint fit.part is of other data, settings or another seed"):
            model.fit(bags, labels, checkpoint=file)
    damaged = r"checkpoint fit\.part is not valid: the file is damaged or is something else: .*"
    for bad, words in {
        b"": damaged,
        good[:100]: damaged,
        good[:-8]: damaged,
        b"{}" * 50: damaged,
        (tmp_path / "model.safetensors").read_bytes(): damaged,
        good[:-1] + bytes([good[-1] ^ 1]): r"checkpoint fit\.part: checksum differs: file is damaged or was changed\.",
        b"\x80\x05" + b"x" * 50: r"checkpoint fit\.part is a Python pickle; such .*",
    }.items():
        file.write_bytes(bad)
        with pytest.raises(InputError, match=rf"^{words} Name another file to begin anew\.$") as caught:
            VGPMIL(**short).fit(bags, y, checkpoint=file)
        assert str(caught.value).count("checkpoint") == 1
    for changes, words in [({"format": 3}, "was written by an earlier version"), ({"history": None}, "is not valid: ")]:
        file.write_bytes(good)
        tensors, facts = unseal(file, KIND, FORMAT)
        seal(file, tensors, {name: value for name, value in (facts | changes).items() if value is not None})
        with pytest.raises(InputError, match=rf"^checkpoint fit\.part {words}.* Name another file to begin anew\.$"):
            VGPMIL(**short).fit(bags, y, checkpoint=file)
    with pytest.raises(InputError, match="is not a checkpoint"):
        VGPMIL(**short).fit(bags, y, checkpoint=tmp_path)
    with pytest.raises(InputError, match="do not take y_instances"):
        VGPMIL(**short).fit(
            bags,
            y,
            checkpoint=tmp_path / "new",
            y_instances=[np.ones(len(bag)) * t for bag, t in zip(bags, y, strict=True)],
        )


BACK = 300  # seconds in which a busy machine starts a worker again


def test_f5_workers_killed_while_fits_run(client, data, alone, faults):
    moment = random.Random(5)
    for turn in range(faults.repeats("F5")):
        client.wait_for_workers(2, timeout=BACK)
        pids, killed = sorted(client.run(os.getpid).values()), []
        when, delay = moment.randrange(1, 4), moment.uniform(0.0, 0.05)

        def kill(row, pids=pids, killed=killed, when=when, delay=delay, turn=turn):
            if (row["stage"], row["iteration"]) == ("fit", when) and not killed:
                killed.append(pids[turn % len(pids)])
                threading.Timer(delay, os.kill, (killed[0], signal.SIGKILL)).start()

        assert bits(VGPMIL(**SETTINGS).fit(*data, client=client, callbacks=[kill])) == alone["passes"]
        client.wait_for_workers(2, timeout=BACK)
        assert killed and killed[0] not in client.run(os.getpid).values()
        faults.add("F5")


def test_a_client_is_a_client(data):
    for wrong in ("tcp://127.0.0.1:8786", 3):
        with pytest.raises(InputError, match=r"client must be a distributed.Client"):
            VGPMIL(**SETTINGS).fit(*data, client=wrong)


# The command line


def test_commands_on_a_cluster_write_the_same_tables(local, tmp_path):
    frame_of(n_bags=60).to_csv(tmp_path / "train.csv", index=False)
    options = ["--n-inducing", "6", "--max-iter", "8", "--batch-bags", "20"]
    assert call("data", "import", tmp_path / "train.csv", tmp_path / "store").exit_code == 0
    address = ["--cluster", local.scheduler_address]
    for name, more in (("alone", ["--checkpoint", tmp_path / "part"]), ("spread", address)):
        done = call("fit", tmp_path / "store", "--out", tmp_path / name, *options, *more)
        assert done.exit_code == 0, done.output
    assert not (tmp_path / "part").exists()
    for name, more in (("one", []), ("many", address)):
        done = call("predict", tmp_path / "spread", tmp_path / "store", "--out", tmp_path / name, *more)
        assert done.exit_code == 0, done.output
    for file in ("bags.csv", "instances.csv"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "many" / file).read_bytes()
    assert ",batches," in (tmp_path / "spread" / "history.csv").read_text()
    models = [next((tmp_path / name).glob("*.safetensors")).read_bytes() for name in ("alone", "spread")]
    assert models[0] == models[1]


def test_unreachable_schedulers_are_refused_in_time(monkeypatch, tmp_path):
    monkeypatch.setattr(workforce, "ANSWER_WITHIN", 1)
    frame_of().to_csv(tmp_path / "train.csv", index=False)
    started = time.perf_counter()
    for address in ("tcp://127.0.0.1:9", "nonsense://x", "tcp://127.0.0.1:port"):
        with pytest.raises(InputError, match=f"no Dask scheduler answers at {address}"):
            connect(address)
        done = call("fit", tmp_path / "train.csv", "--out", tmp_path / "run", "--cluster", address)
        fails(done, 65, f"no Dask scheduler answers at {address}")
    assert time.perf_counter() - started < 10 * 6


# Last, for these end clusters


def test_a_cluster_without_workers(data):
    gc.collect()  # what earlier tests left must not be collected by the thread that starts: its lock is taken then
    with distributed.LocalCluster(processes=False, **{**LOCAL, "n_workers": 0}) as empty:
        with distributed.Client(empty, set_as_default=False) as client:
            with pytest.raises(ClusterFailure, match="has no workers"):
                list(parts(data, client, patience=0.5).map(len))


def parts(data, client, **settings):
    from psimil.inference.shards import StreamedShards
    from psimil.model.bag_likelihoods import Labels
    from psimil.model.densities import HyperbolicSecant
    from psimil.model.scaling import Scaling

    bags, y = data
    labels = Labels(y, bags.offsets)
    found = StreamedShards(bags.X, labels, np.ones(len(y)), Scaling.fit(bags.X), HyperbolicSecant(), rows=100)
    return DaskShards(found, client, **settings)


def test_a_lost_scheduler_ends_the_fit_and_the_checkpoint_goes_on(data, alone, tmp_path):
    """Workers hold the rows of a store; the second half of the fit is done without them."""
    bags, y = data
    with StoreWriter(tmp_path / "store", 3, dtype="float64") as writer:
        for b, bag in enumerate(bags):
            writer.add(bag, int(y[b]), f"b{b:03d}")
    store, file = open_store(tmp_path / "store"), tmp_path / "fit.part"
    running = distributed.LocalCluster(processes=False, **LOCAL)
    client = distributed.Client(running, set_as_default=False, timeout=5)

    def leave(row):
        if (row["stage"], row["iteration"]) == ("fit", 3):
            running.close()

    started = time.perf_counter()
    with pytest.raises(ClusterFailure, match="scheduler does not answer"):
        VGPMIL(**SETTINGS).fit(store, y, client=client, checkpoint=file, callbacks=[leave])
    assert time.perf_counter() - started < 55  # the patience of a fit is 60
    client.close()
    assert bits(VGPMIL(**SETTINGS).fit(store, y, checkpoint=file)) == alone["passes"]
