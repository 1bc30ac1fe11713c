"""What the default model's choices are worth: kernel, aggregate and rivals, by cross-validation within each dataset.

MUSK1 and the digits bags are embedded; Elephant and Birds are read from the data directory when it is there.
"""

import warnings

import numpy as np
from problem import mnist_folder
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold
from timing import last_line

from psimil import RBF, VGPMIL, Linear
from psimil.datasets import digits_bags, load_musk1, read_classic
from psimil.foundations.errors import DataWarning
from psimil.metrics import bag_metrics

M = 50


def trend(n_features):
    return Linear(1.0 / n_features) + RBF()


CHOICES = {
    "default": lambda D: {},
    "noisy-or": lambda D: {"aggregate": "noisy_or"},
    "maximum": lambda D: {"aggregate": "max"},
    "learned RBF alone": lambda D: {"kernel": RBF()},
    "learned linear + RBF, no rivals": lambda D: {"kernel": trend(D)},
    "not calibrated": lambda D: {"calibrate": False},
}


def datasets():
    yield "musk1", *load_musk1()
    digits = digits_bags(n_bags=300)
    yield "digits", digits.bags, digits.y
    folder = mnist_folder()
    for name in ("elephant", "birds_brown_creeper"):
        path = None if folder is None else folder.parent / "classic" / f"{name}.csv.gz"
        if path is not None and path.is_file():
            yield name, *read_classic(path)


def scores(bags, y, parameters):
    found = []
    for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(np.zeros(len(y)), y):
        model = VGPMIL(n_inducing=M, random_state=0, **parameters).fit(bags[train], y[train])
        said = model.predict_dist(bags[test])
        found.append(bag_metrics(y[test], said.prob, said.threshold, said.log_odds))
    return {name: round(float(np.mean([fold[name] for fold in found])), 4) for name in ("auc", "accuracy", "log_loss")}


def main():
    results = {}
    with warnings.catch_warnings():
        for category in (DataWarning, ConvergenceWarning):
            warnings.simplefilter("ignore", category)
        for name, bags, y in datasets():
            for label, parameters in CHOICES.items():
                results[f"{name}: {label}"] = found = scores(bags, y, parameters(bags.n_features))
                print(f"{name:20s} {label:32s} AUC {found['auc']:.3f} accuracy {found['accuracy']:.3f} "
                      f"log-loss {found['log_loss']:.3f}", flush=True)  # fmt: skip
    last_line(benchmark="choices", **results)


if __name__ == "__main__":
    main()
