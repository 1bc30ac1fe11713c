"""What tests of several modules need: files to write, one thread for torch, a browser, a count of what was tried."""

import contextlib
import os
import sys
from importlib.util import find_spec

import numpy as np
import pytest

from counting import Counting, faults, pytest_runtest_makereport, tried  # noqa: F401

os.environ |= {"MLFLOW_ALLOW_FILE_STORE": "true", "MLFLOW_DISABLE_TELEMETRY": "true"}  # before anyone imports MLflow


def pytest_configure(config):
    config.pluginmanager.register(Counting(config.rootpath), "counting")


@pytest.fixture(scope="session", autouse=True)
def forked_workers():
    """Dask's workers are forked from one process that has imported what they need: a start takes a tenth as long."""
    if "distributed" not in sys.modules:
        yield
        return
    import dask
    from distributed.utils import get_mp_context

    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        get_mp_context().set_forkserver_preload(["distributed", "psimil.cluster", "psimil.estimators.psi_vgpmil"])
        yield


@pytest.fixture
def write(tmp_path):
    def write(content, name="bags.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.fixture
def savez(tmp_path):
    def savez(**arrays):
        path = tmp_path / "bags.npz"
        np.savez(path, **arrays)
        return path

    return savez


@pytest.fixture
def sketches():
    """Figures are neither laid out nor rendered."""
    from commands import sketched

    with sketched():
        yield


@pytest.fixture(scope="module")
def one_torch_thread():
    """Two threads that wait for each other on a busy machine make small networks ten times slower."""
    if find_spec("torch") is None:
        yield
        return
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def browser():
    from chromium import chromium

    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def page_to_lend(browser):
    """For one reader at a time who needs no context of his own."""
    from chromium import empty_page

    return empty_page(browser)


@pytest.fixture
def visit(browser, page_to_lend, samples, tmp_path):
    """Open one of the module's samples, pairs of results and volumes; no feedback was left before."""
    from chromium import MEDIA, Visit
    from psimil.viewer.feedback_store import FeedbackStore
    from psimil.viewer.state import ViewerState
    from viewed import serving

    with contextlib.ExitStack() as opened:
        free = [page_to_lend]

        def visit(kind, **options):
            viewed = ViewerState(samples[kind][0], FeedbackStore(tmp_path), samples[kind][1])
            lent = free.pop() if free and options.keys() <= MEDIA.keys() else None
            visited = Visit(browser, opened.enter_context(serving(viewed)), lent, viewed, **options)
            opened.callback(visited.close)
            return visited

        yield visit


@pytest.fixture(scope="session")
def nursery(tmp_path_factory):
    """Processes with psimil loaded, under a C library that fails when it is told to."""
    from faulty_libc import compiled
    from nursery import Nursery

    folder = tmp_path_factory.mktemp("nursery")
    nursery = Nursery(folder, LD_PRELOAD=str(compiled(folder)))
    yield nursery
    nursery.close()


@pytest.fixture(scope="module", params=["features", "images", "ct"])
def client(request, tmp_path_factory):
    """A client of the viewer, for every kind of results."""
    from viewed import Browser, viewed_of

    return Browser(viewed_of(request.param, tmp_path_factory.mktemp(request.param)))


@pytest.fixture
def tracker(tmp_path):
    """The folder to which MLflow logs runs."""
    import mlflow

    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(tmp_path / "runs")
    yield tmp_path / "runs"
    mlflow.set_tracking_uri(before)
