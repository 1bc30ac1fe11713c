"""Wide features, as foundation models give them: seconds of a default fit, and held-out scores against the full width.

    python benchmarks/bench_wide.py [--bags 1000] [--size 100] [--features 1024] [--seeds 5] [--full]

Features are synthetic: their variance decays along 1024 directions, a few of which tell positive instances apart.
``--full`` also fits without any reduction.
"""

import argparse
import time

import numpy as np

from psimil import VGPMIL, Bags
from psimil.inference import options
from psimil.results.metrics import bag_metrics

RANK, TELLING, SHIFT = 64, 8, 1.5


def wide_bags(n_bags, size, n_features, seed, world):
    """Bags of instances (n_bags * size, n_features) in single precision, half of them with 5 % positive instances."""
    mixing = np.random.default_rng(world).normal(size=(n_features, n_features)) / np.sqrt(n_features)
    rng = np.random.default_rng((seed, world))
    spectrum = 1.0 / np.sqrt(1.0 + np.arange(n_features))
    y = np.arange(n_bags) % 2
    X = np.empty((n_bags * size, n_features), np.float32)
    for b in range(n_bags):
        latent = rng.normal(size=(size, n_features)) * spectrum
        if y[b]:
            positive = rng.choice(size, max(1, size // 20), replace=False)
            latent[np.ix_(positive, np.arange(RANK - TELLING, RANK))] += SHIFT * spectrum[RANK - TELLING : RANK]
        X[b * size : (b + 1) * size] = latent @ mixing
    return Bags(X, np.arange(n_bags + 1) * size), y


def measured(train, y, test, truth, seed):
    started, cpu = time.perf_counter(), time.process_time()
    model = VGPMIL(random_state=seed).fit(train, y)
    seconds, busy = time.perf_counter() - started, time.process_time() - cpu
    found = model.predict_dist(test)
    scores = bag_metrics(truth, found.prob, found.threshold, found.log_odds)
    return seconds, busy, scores["auc"], scores["log_loss"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in {"bags": 1000, "size": 100, "features": 1024, "seeds": 5}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--full", action="store_true", help="Also fit without any reduction.")
    given = parser.parse_args()
    print("seed,features,seconds,cpu_seconds,auc,log_loss")
    widest = options.WIDE
    for seed in range(given.seeds):
        train, y = wide_bags(given.bags, given.size, given.features, 0, seed)
        test, truth = wide_bags(max(given.bags // 2, 100), given.size, given.features, 1, seed)
        for kept in (widest, *([given.features] if given.full else [])):
            options.WIDE = kept
            numbers = measured(train, y, test, truth, seed)
            print(seed, kept, *(f"{number:.4g}" for number in numbers), sep=",", flush=True)
    options.WIDE = widest


if __name__ == "__main__":
    main()
