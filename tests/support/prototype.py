"""A small honest multiple instance classifier that owes nothing to the model: it passes the whole contract in 0.2 s."""

from types import SimpleNamespace

import numpy as np
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin

from psimil.estimators.inputs import read_bags, read_labels, read_random_state
from psimil.foundations.errors import NotFitted
from psimil.model.scaling import Scaling


class PrototypeMIL(ClassifierMixin, BaseEstimator):
    """Instances score by how far they lie along the line from negative to positive bags; the highest one is the bag."""

    def __init__(self, sharpness=2.0, random_state=0):
        self.sharpness = sharpness
        self.random_state = random_state

    def fit(self, bags, y=None, bag_ids=None):
        found = read_bags(bags, bag_ids)
        _, T = read_labels(y, found)
        rng = read_random_state(self.random_state)
        scaling = Scaling.fit(found.X)
        X, inside = scaling.apply(found.X), np.repeat(T, found.sizes) == 1
        line = 1e-3 * rng.standard_normal(X.shape[1])
        if inside.any() and not inside.all():
            line = line + X[inside].mean(axis=0) - X[~inside].mean(axis=0)
        self.classes_, self.n_features_in_ = np.array([0, 1]), found.n_features
        self.scaling_, self.line_ = scaling, line / max(np.linalg.norm(line), 1e-12)
        self.threshold_ = 0.5
        return self

    def _read(self, bags, bag_ids=None):
        if not hasattr(self, "line_"):
            raise NotFitted("this model is not fitted. Call fit() first.")
        found = read_bags(bags, bag_ids, what="prediction set")
        if found.n_features != self.n_features_in_:
            raise ValueError(f"expected {self.n_features_in_} features, got {found.n_features}.")
        return found

    def _score(self, found):
        """(N,) log-odds of instances."""
        return np.clip(self.sharpness * (self.scaling_.apply(found.X) @ self.line_ - 1.0), -30.0, 30.0)

    def predict_dist(self, bags, bag_ids=None):
        found = self._read(bags, bag_ids)
        score = self._score(found)
        prob = expit(score)
        values = {"prob": prob, "std": 0.5 * prob * (1 - prob), "lower": expit(score - 1), "upper": expit(score + 1)}
        highest = {name: np.maximum.reduceat(v, found.offsets[:-1]) for name, v in (values | {"score": score}).items()}
        highest["std"] = 0.5 * highest["prob"] * (1 - highest["prob"])
        return SimpleNamespace(**highest, **{f"instance_{name}": v for name, v in values.items()}, split=found.split)

    def predict_proba(self, bags, bag_ids=None):
        prob = self.predict_dist(bags, bag_ids).prob
        return np.column_stack([1 - prob, prob])

    def decision_function(self, bags, bag_ids=None):
        return self.predict_dist(bags, bag_ids).score

    def predict(self, bags, bag_ids=None):
        return (self.predict_proba(bags, bag_ids)[:, 1] >= self.threshold_).astype(np.int64)

    def predict_instances(self, bags, bag_ids=None):
        found = self.predict_dist(bags, bag_ids)
        return found.split(found.instance_prob)

    def save(self, path):
        if not hasattr(self, "line_"):
            raise NotFitted("this model is not fitted. Call fit() first.")
        with open(path, "wb") as stream:
            np.savez(stream, line=self.line_, location=self.scaling_.location, scale=self.scaling_.scale)

    @classmethod
    def load(cls, path):
        with np.load(path) as file:
            model = cls()
            model.line_, model.scaling_ = file["line"], Scaling(file["location"], file["scale"])
        model.classes_, model.n_features_in_, model.threshold_ = np.array([0, 1]), len(model.line_), 0.5
        return model

    def __sklearn_is_fitted__(self):
        return hasattr(self, "line_")
