"""What the default model's choices are worth: each changed alone, by cross-validation within each dataset.

MUSK1 and the digits bags are embedded; Elephant and Birds are read from the data directory when it is there.
"""

import warnings

import numpy as np
from problem import mnist_folder
from scipy.special import logit
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold
from timing import last_line

from psimil import GVGPMIL, RBF, VGPMIL, GammaMixture, Linear
from psimil.datasets import digits_bags, load_musk1, read_classic
from psimil.foundations.errors import DataWarning
from psimil.paper.experiments.plans import GRID
from psimil.results.metrics import bag_metrics

M = 50


def default(**parameters):
    return VGPMIL(n_inducing=M, random_state=0, **parameters)


# Each choice makes one or more models for D features. The predictions of several are averaged, or the best is taken.
CHOICES = {
    "default": lambda D: [default()],
    "noisy-or": lambda D: [default(aggregate="noisy_or")],
    "maximum": lambda D: [default(aggregate="max")],
    "learned RBF alone": lambda D: [default(kernel=RBF())],
    "learned linear + RBF, no rivals": lambda D: [default(kernel=Linear(1.0 / D) + RBF())],
    "RBF with a length scale per feature": lambda D: [default(kernel=RBF(lengthscale=np.full(D, np.sqrt(D))))],
    "not calibrated": lambda D: [default(calibrate=False)],
    "zero mean": lambda D: [default(mean="zero")],
    "inducing points of greatest variance": lambda D: [default(inducing="greedy_variance")],
    "three restarts, averaged": lambda D: [default().set_params(random_state=seed) for seed in range(3)],
    "G-VGPMIL": lambda D: [GVGPMIL(n_inducing=M, random_state=0)],
    "G-VGPMIL, shape chosen": lambda D: [
        GVGPMIL(density=GammaMixture(alpha, beta), n_inducing=M, random_state=0) for alpha, beta in GRID
    ],
}
CHOSEN = ("G-VGPMIL, shape chosen",)  # the model with the best leave-one-bag-out score, in place of the average


def datasets():
    yield "musk1", *load_musk1()
    digits = digits_bags(n_bags=300)
    yield "digits", digits.bags, digits.y
    folder = mnist_folder()
    for name in ("elephant", "birds_brown_creeper"):
        path = None if folder is None else folder.parent / "classic" / f"{name}.csv.gz"
        if path is not None and path.is_file():
            yield name, *read_classic(path)


def scores(bags, y, label):
    found = []
    for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(np.zeros(len(y)), y):
        models = [model.fit(bags[train], y[train]) for model in CHOICES[label](bags.n_features)]
        if label in CHOSEN:
            models = [max(models, key=lambda model: model.out_of_bag_.mean_log_predictive)]
        said = [model.predict_dist(bags[test]) for model in models]
        prob, threshold = (np.mean([getattr(one, name) for one in said], axis=0) for name in ("prob", "threshold"))
        found.append(bag_metrics(y[test], prob, threshold, logit(prob) if len(said) > 1 else said[0].log_odds))
    return {name: round(float(np.mean([fold[name] for fold in found])), 4) for name in ("auc", "accuracy", "log_loss")}


def main():
    results = {}
    with warnings.catch_warnings():
        for category in (DataWarning, ConvergenceWarning):
            warnings.simplefilter("ignore", category)
        for name, bags, y in datasets():
            for label in CHOICES:
                results[f"{name}: {label}"] = found = scores(bags, y, label)
                print(f"{name:20s} {label:36s} AUC {found['auc']:.3f} accuracy {found['accuracy']:.3f} "
                      f"log-loss {found['log_loss']:.3f}", flush=True)  # fmt: skip
    last_line(benchmark="choices", **results)


if __name__ == "__main__":
    main()
