"""Draw the figures of docs/concepts and print the numbers that the pages quote.

    python scripts/docs_figures.py            # writes docs/images/*.png

Same seeds, same pictures: run it again after a change that could move them.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from psimil import RBF, VGPMIL, Bags, GammaMixture, HyperbolicSecant, SmoothLaplace, StudentT
from psimil.datasets import DigitBags, digits_bags, make_bags
from psimil.figures import new_figure, plot_bag, plot_digits, plot_history, plot_referral, plot_reliability, plot_theta
from psimil.figures.canvas import BLUE, ORANGE
from psimil.figures.lettering import legend_below, titled
from psimil.predictive.prediction import Prediction
from psimil.results.metrics import bag_metrics, instance_metrics
from psimil.results.referral_curve import area_under_referral, referral_curve

IMAGES = Path(__file__).parents[1] / "docs" / "images"
TRAIN, TEST = np.arange(200), np.arange(200, 400)
DENSITIES = {
    "hyperbolic secant": HyperbolicSecant(),
    "Gamma, alpha=1, beta=1": GammaMixture(1.0, 1.0),
    "Student, nu=4": StudentT(4.0),
    "smoothed Laplace": SmoothLaplace(1.0, 1.0),
}


def write(ax: Axes, name: str) -> None:
    """The figure as docs/images/<name>.png, without a date inside."""
    ax.figure.savefig(IMAGES / f"{name}.png", dpi=110, bbox_inches="tight", metadata={"Software": None})


def picked(data: DigitBags, prediction: Prediction) -> list[int]:
    """Among the test bags: a clear positive, a clear negative and the one nearest to the threshold."""
    positive = np.flatnonzero(data.y[TEST] == 1)
    clear, doubtful = prediction.prob, np.abs(prediction.log_odds)
    return [int(positive[clear[positive].argmax()]), int(clear.argmin()), int(doubtful.argmin())]


def digits() -> None:
    """Bags of digits, their history, reliability and referral, all on bags that were not trained on."""
    data = digits_bags(n_bags=400, bag_size=8, seed=0)
    used = np.flatnonzero(np.ptp(data.bags.X[: 8 * len(TRAIN)], axis=0))  # pixels at the border are always dark
    bags = Bags(data.bags.X[:, used], data.bags.offsets)
    model = VGPMIL(n_inducing=100, random_state=0).fit(bags[TRAIN], data.y[TRAIN])
    prediction = model.predict_dist(bags[TEST])
    truth, pictures = data.y_instances.reshape(-1, 8)[TEST], data.images.reshape(-1, 8, 8, 8)[TEST]
    chosen = picked(data, prediction)
    ax = new_figure(9.0, 6.5)
    write(plot_digits([pictures[b] for b in chosen], prediction, chosen, [truth[b] for b in chosen], ax=ax), "bags")
    write(plot_bag(prediction, chosen[2], truth[chosen[2]], ax=new_figure()), "uncertain-bag")
    write(plot_history(model.history_, ax=new_figure()), "bound")
    y = data.y[TEST]
    write(plot_reliability(y, prediction.prob, ax=new_figure()), "reliability")
    curve = referral_curve(y, prediction.prob, prediction.std, prediction.threshold)
    write(plot_referral({"VGPMIL": curve}, ax=new_figure()), "referral")
    of_bags = bag_metrics(y, prediction.prob, prediction.threshold, prediction.log_odds)
    of_instances = instance_metrics(truth.ravel(), prediction.instance_prob, log_odds=prediction.instance_log_odds)
    print(f"digits, {len(TEST)} test bags, aggregate {prediction.aggregate}, {model.n_iter_} passes")
    print("  bags:", {name: round(value, 3) for name, value in of_bags.items()})
    print("  instances:", {name: round(value, 3) for name, value in of_instances.items()})
    area = area_under_referral(y, prediction.prob, prediction.std, prediction.threshold)
    kept = referral_curve(y, prediction.prob, prediction.std, prediction.threshold, fractions=[0.9])["error"].iloc[0]
    print(f"  referred: {int(prediction.refer.sum())}; mean error by share kept {area:.3f}; with 90 % kept {kept:.3f}")


def far_away() -> None:
    """Latent standard deviation along a line that leaves the data: the default, and the posterior of 1.0.0."""
    bags, y, _ = make_bags(n_bags=60, n_features=1, separation=3.0, seed=0)
    x = np.linspace(-20.0, 24.0, 441)
    ax = new_figure()
    for posterior, style, colour in (("variational", "-", BLUE), ("augmented", "--", ORANGE)):
        model = VGPMIL(kernel=RBF(1.0), n_inducing=8, random_state=0, posterior=posterior, calibrate=False).fit(bags, y)
        deviation = np.sqrt(model.predict_dist(x[:, None, None]).latent_variance)
        ax.plot(x, deviation, style, color=colour, label=f'posterior="{posterior}"')
        inside = (x >= bags.X.min()) & (x <= bags.X.max())
        print(f"{posterior}: mean deviation inside {deviation[inside].mean():.2f}, at x = 24 {deviation[-1]:.2f}")
    ax.plot(bags.X[:, 0], np.zeros(len(bags.X)), "|", color="black", label="training instances")
    ax.set(xlabel="feature", ylabel="standard deviation of $f$")
    titled(ax, "What the model says where it has seen nothing")
    legend_below(ax)
    write(ax, "far-away")


def main() -> None:
    """Every figure."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    IMAGES.mkdir(exist_ok=True)
    write(plot_theta(DENSITIES, ax=new_figure()), "theta")
    digits()
    far_away()


if __name__ == "__main__":
    main()
