"""Bags left out in closed form: cost in passes, and how well they order settings as held-out bags do."""

import argparse
import warnings
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from bench_pass import full_pass
from problem import mnist_folder, random_problem, settled, sparse_gp
from scipy.stats import spearmanr
from sklearn.model_selection import StratifiedKFold
from timing import last_line, typical

from psimil import RBF, GammaMixture, HyperbolicSecant, PsiVGPMIL
from psimil.datasets import load_musk1, mnist_split
from psimil.inference.out_of_bag import deal, leave_out, log_predictive

# the model as it is: both scores without calibration
RAW = {"hyperparameters": None, "max_iter": 30, "calibrate": False, "threshold": 0.5, "false_positive_rate": None}
RESIDUALS = {"projected": None, "full": "augmented"}  # and the posterior that has it
DENSITIES = (HyperbolicSecant(), GammaMixture(1.0, 1.0))


def cost() -> float:
    """Seconds of leaving every fold out over those of a pass, N = 56 000, M = 200."""
    problem = random_problem()
    record = settled(problem, sparse_gp(problem))
    posterior, labels = record.next_posterior, problem.labels
    fold = deal(labels.T, labels.sum(problem.keys), record.gp.size, len(problem.X))
    found = typical(
        {
            "pass": lambda: full_pass(problem, record.gp, posterior),
            "left_out": lambda: leave_out(record, problem, fold),
        }
    )
    return found["left_out"] / found["pass"]


def both_scores(parameters: dict[str, Any], train: tuple[Any, Any], test: tuple[Any, Any]) -> tuple[float, float]:
    """Mean log predictive of the training bags left out, and of held-out bags."""
    model = PsiVGPMIL(random_state=0, **RAW, **parameters).fit(*train)
    seen = model.predict_dist(test[0])
    return model.out_of_bag_.mean_log_predictive, float(log_predictive(seen.log_odds, test[1]).mean())


def settings(scales: tuple[float, ...], m: int) -> list[dict[str, Any]]:
    """The grid over variance, length scale, residual and density."""
    return [
        {"kernel": RBF(v, s), "residual": r, "density": d, "n_inducing": m, "posterior": RESIDUALS[r]}
        for v, s, r, d in product((2.0, 10.0), scales, RESIDUALS, DENSITIES)
    ]


def on_mnist(data: Path) -> list[tuple[float, float]]:
    """Scores of every setting on one split."""
    (bags, y, _), (test, test_y, _) = mnist_split(data)
    return [both_scores(p, (bags, y), (test, test_y)) for p in settings((2.0, 4.0, 8.0), 200)]


def on_musk1() -> list[tuple[float, float]]:
    """Scores of every setting, averaged over ten folds twice."""
    bags, y = load_musk1()
    scores = []
    for parameters in settings((5.0, 8.0, 13.0), 100):
        folds = []
        for seed in range(2):
            for train, test in StratifiedKFold(10, shuffle=True, random_state=seed).split(np.zeros(len(y)), y):
                folds.append(both_scores(parameters, (bags[train], y[train]), (bags[test], y[test])))
        scores.append(tuple(np.mean(folds, axis=0)))
    return scores


def main() -> None:
    """Print cost and rank correlations; the last line is JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=mnist_folder(), help="directory with the four IDX files of MNIST")
    arguments = parser.parse_args()
    figures: dict[str, float] = {"passes": cost()}
    print(f"leaving bags out costs {figures['passes']:.2f} passes")
    warnings.simplefilter("ignore")
    tasks = {"musk1": on_musk1} | ({"mnist": lambda: on_mnist(arguments.data)} if arguments.data else {})
    for name, scores_of in tasks.items():
        scores = np.array(scores_of())
        for left_out, held_out in scores:
            print(f"  {name}: left out {left_out:.4f}, held out {held_out:.4f}")
        figures[f"spearman_{name}"] = float(spearmanr(scores[:, 0], scores[:, 1]).statistic)
        print(f"{name}: {len(scores)} settings, Spearman {figures[f'spearman_{name}']:.3f}")
    last_line(benchmark="out_of_bag", **figures)


if __name__ == "__main__":
    main()
