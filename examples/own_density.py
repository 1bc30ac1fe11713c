"""A density of your own: give log psi, theta follows; what is not a Gaussian scale mixture is refused."""

import numpy as np

from psimil import HyperbolicSecant, PsiVGPMIL, SmoothLaplace, density_from_log
from psimil.datasets import make_bags
from psimil.results.metrics import bag_metrics, instance_metrics


def main() -> None:
    cauchy_like = density_from_log(lambda x: -1.5 * np.log1p(x**2 / 3.0), name="cauchy-like")
    print("theta at 0, 1 and 10:", np.round(cauchy_like.theta(np.array([0.0, 1.0, 10.0])), 4))

    try:
        density_from_log(lambda x: -(x**4))
    except ValueError as error:
        print("refused:", error)

    bags, y, y_instances = make_bags(n_bags=200, separation=3.0, seed=0)
    train, test = np.arange(100), np.arange(100, 200)
    known = np.concatenate(bags.split(y_instances)[100:])
    for density in (HyperbolicSecant(), SmoothLaplace(), cauchy_like):
        clf = PsiVGPMIL(density=density, n_inducing=40, random_state=0).fit(bags[train], y[train])
        prediction = clf.predict_dist(bags[test])
        of_bags = bag_metrics(y[test], prediction.prob, prediction.threshold, prediction.log_odds)
        of_instances = instance_metrics(known, prediction.instance_prob, log_odds=prediction.instance_log_odds)
        name = getattr(density, "name", type(density).__name__)
        print(f"{name}: test bag AUC {of_bags['auc']:.3f}, test instance AUC {of_instances['auc']:.3f}")


if __name__ == "__main__":
    main()
