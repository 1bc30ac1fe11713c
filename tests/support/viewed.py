"""Small result sets of every kind behind a viewer, and a server for development.

``python tests/support/viewed.py PORT [ct|images|features]`` serves one of them with the token "development".
"""

import contextlib
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from fastapi.testclient import TestClient

from psimil.ct.phantom.studies import write_phantoms
from psimil.ct.scans.cohort import ReadingRules
from psimil.ct.scans.identity import Hasher
from psimil.ct.scans.index import index_folder
from psimil.ct.scans.series import read_series
from psimil.ct.scans.windows import BLOOD, apply_windows
from psimil.datasets import digits_bags, make_bags
from psimil.predictive.aggregates import NoisyOr
from psimil.predictive.moments import instance_moments
from psimil.predictive.prediction import Prediction
from psimil.results.result_set import ResultSet
from psimil.viewer.app import create_app
from psimil.viewer.feedback_store import FeedbackStore
from psimil.viewer.server import bound_socket, server_of
from psimil.viewer.settings import Settings
from psimil.viewer.state import ViewerState
from psimil.viewer.volumes import volumes_of

HASHER = Hasher(b"0" * 32)
CARD = {"model": "G-VGPMIL", "version": "1.0.0", "density": "gamma(1, 2.5)", "kernel": "RBF", "inducing": "20"}
KINDS = ("features", "images", "ct")


def predicted(mean, offsets, ids, seed=0, novelty=None):
    """A prediction from (N,) latent means, and novelty if given; no model is trained."""
    rng = np.random.default_rng(seed)
    mean = np.asarray(mean, dtype=np.float64)
    variance = rng.uniform(0.1, 2.0, len(mean))
    instances, offsets = instance_moments(mean, variance), np.asarray(offsets)
    bags = NoisyOr().moments(instances, offsets)
    found = (np.asarray(ids), offsets, None, mean, variance, instances, bags, "noisy_or")
    return Prediction(*found, instance_novelty=novelty)


def strange(offsets, every=4):
    """(N,) novelty of instances: of every fourth bag the last one, and that alone, is unlike the training data."""
    novelty = np.random.default_rng(8).uniform(0.0, 0.5, offsets[-1])
    novelty[np.asarray(offsets)[1::every] - 1] = 0.875
    return novelty


def feature_results(n_bags=30, ids=None, notes=None, feature_names=None, seed=0):
    """Bags of numbers with telling features; the truth of every fifth bag is unknown."""
    bags, y, y_instances = make_bags(n_bags=n_bags, n_features=4, seed=seed)
    order = np.argsort(-np.abs(bags.X), axis=1)[:, :3]
    values = np.take_along_axis(bags.X, order, axis=1)
    return ResultSet.of(
        predicted(
            bags.X.sum(1) - 5.0, bags.offsets, range(n_bags) if ids is None else ids, seed, strange(bags.offsets)
        ),
        truth=np.where(np.arange(n_bags) % 5 == 4, -1, y),
        instance_truth=np.where(np.arange(len(bags.X)) % 3 == 0, y_instances, -1),
        effects=(order, values, 0.5 * values),
        owed=(0.25 * bags.X[:, 0], 0.5 * bags.X[:, 1]),
        feature_names=feature_names or ("width", "height", "mass", "charge"),
        notes=notes,
        model=CARD,
    )


def image_results(n_bags=12):
    """Bags of digits with their pictures."""
    bags, y, y_instances, images = digits_bags(n_bags=n_bags)
    mean = 4.0 * y_instances - 4.0 + np.random.default_rng(0).normal(size=len(y_instances))
    return ResultSet.of(
        predicted(mean, bags.offsets, range(n_bags)), kind="images", truth=y, instance_truth=y_instances,
        images=np.rint(255 * images).astype(np.uint8), model=CARD,
    )  # fmt: skip


def ct_results(folder, scans=2, size=32):
    """Phantom scans in ``folder``/studies, and results that call slices by how much of them is as bright as blood."""
    files = write_phantoms(folder, scans, size=size, seed=3)
    studies = index_folder(files.studies, hasher=HASHER).studies
    series = [next(part for part in study.series if part.usable) for study in studies]
    read = [read_series(part) for part in series]
    middle = [scan.hu[:, size // 4 : -size // 4, size // 4 : -size // 4].reshape(len(scan), -1) for scan in read]
    bright = np.concatenate([((m > 55) & (m < 95)).mean(1) for m in middle])
    rows = [line.split(",") for line in files.truth.read_text().splitlines()[1:]]
    truth = {uid: int(label) for _, uid, _, label in rows}
    known = np.array([truth[source.sop_instance_uid] for scan in read for source in scan.sources])
    offsets = np.cumsum([0] + [len(scan) for scan in read])
    images = [apply_windows(scan.hu, (BLOOD,), size=min(96, size))[:, 0] for scan in read]
    pictures = np.rint(255 * np.concatenate(images)).astype(np.uint8)
    prediction = predicted(
        20 * bright - 7 + 7 * known, offsets, [part.study_id for part in series], novelty=strange(offsets)
    )
    results = ResultSet.of(
        prediction,
        kind="ct",
        truth=np.maximum.reduceat(known, offsets[:-1]),
        instance_truth=known,
        positions=np.concatenate([scan.positions for scan in read]),
        images=pictures,
        heat=heat_over(pictures, prediction.instance_label),
        notes=tuple("; ".join(scan.notes) for scan in read),
        series=tuple(part.id for part in series),
        model=CARD,
    )
    return results, files.studies


def heat_over(pictures, called):
    """Heat in the left upper quarter of called slices, by how bright they are; none elsewhere."""
    heat = np.zeros_like(pictures)
    side = pictures.shape[1] // 2
    heat[:, :side, :side] = np.maximum(pictures[:, :side, :side], 80)
    heat[np.asarray(called) == 0] = 0
    return heat


def viewed_of(kind, folder, *, show_ids=False, **how):
    """A viewed result set of one kind; feedback goes to ``folder``."""
    folder, volumes = Path(folder), None
    if kind == "ct":
        results, studies = ct_results(folder / "phantoms", **how)
        volumes = volumes_of(studies, results.series, ReadingRules(), HASHER)
    else:
        results = {"features": feature_results, "images": image_results}[kind](**how)
    return ViewerState(results, FeedbackStore(folder), volumes, show_ids=show_ids)


class Browser(TestClient):
    """A client that asks as a page of the viewer does, with the cookie of a session unless told otherwise."""

    def __init__(self, viewed, *, signed_in=True, settings=None):
        self.viewed, self.settings = viewed, settings or Settings(8123)
        super().__init__(create_app(viewed, self.settings), base_url=self.settings.address, follow_redirects=False)
        self.headers["Origin"] = self.settings.address
        if signed_in:
            assert self.post("/session", json={"token": self.settings.token}).status_code == 204


@contextlib.contextmanager
def serving(viewed, token=None, port=0, show_ids=False):
    """A real server in a thread; its settings."""
    listener = bound_socket("127.0.0.1", port)
    secret = {} if token is None else {"token": token}
    settings = Settings(listener.getsockname()[1], show_ids=show_ids, **secret)
    server = server_of(create_app(viewed, settings))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield settings
    finally:
        server.should_exit = True
        thread.join(60)
        listener.close()


def main(port=8765, kind="ct"):
    """Serve a result set until the process ends."""
    how = {"ct": {"scans": 3, "size": 256}, "features": {}, "images": {}}[kind]
    with tempfile.TemporaryDirectory() as folder:
        with serving(viewed_of(kind, folder, **how), "development", int(port)) as settings:
            print(settings.link, flush=True)
            threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
