"""Default VGPMIL and G-VGPMIL on MNIST bags: 30 principal components, 5600 training bags, M = 200; held-out scores."""

import argparse
import time
from pathlib import Path

from problem import mnist_folder
from timing import last_line

from psimil import GVGPMIL, VGPMIL
from psimil.datasets import mnist_split
from psimil.results.metrics import bag_metrics, instance_metrics


def main() -> None:
    """Print the metrics of both models; the last line is JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=mnist_folder(), help="directory with the four IDX files of MNIST")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.data is None:
        last_line(benchmark="mnist", skipped="give --data, or PSIMIL_DATA with a folder mnist")
        return
    (bags, y, _), (test, test_y, test_instances) = mnist_split(arguments.data, seed=arguments.seed)
    figures: dict[str, float] = {}
    for model in (VGPMIL, GVGPMIL):
        start = time.perf_counter()
        fitted = model(n_inducing=200, random_state=0).fit(bags, y)
        seconds = time.perf_counter() - start
        seen = fitted.predict_dist(test)
        of_bags = bag_metrics(test_y, seen.prob, seen.threshold, seen.log_odds)
        of_instances = instance_metrics(test_instances.ravel(), seen.instance_prob, seen.instance_threshold)
        print(f"{model.__name__}: {seconds:.1f} s, {fitted.n_iter_} passes, {fitted.kernel_}")
        print("  held-out bags:      " + ", ".join(f"{k} {v:.4f}" for k, v in of_bags.items()))
        print("  held-out instances: " + ", ".join(f"{k} {v:.4f}" for k, v in of_instances.items()))
        name = model.__name__.lower()
        figures |= {f"{name}_seconds": seconds}
        figures |= {f"{name}_bag_{k}": of_bags[k] for k in ("auc", "accuracy", "ece")}
        figures |= {f"{name}_instance_{k}": of_instances[k] for k in ("auc", "f1")}
    last_line(benchmark="mnist", seed=arguments.seed, **figures)


if __name__ == "__main__":
    main()
