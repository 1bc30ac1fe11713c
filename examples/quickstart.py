"""Train on MUSK1, look at bags and instances that were held out, save the model and load it again."""

import tempfile
from pathlib import Path

import numpy as np
from sklearn.model_selection import train_test_split

from psimil import GVGPMIL, PsiVGPMIL, datasets
from psimil.results.metrics import bag_metrics


def main() -> None:
    bags, y = datasets.load_musk1()
    train, test = train_test_split(np.arange(len(y)), test_size=0.3, stratify=y, random_state=0)
    clf = GVGPMIL(n_inducing=100, random_state=0).fit(bags[train], y[train])
    print(f"{len(train)} training bags, {len(test)} test bags, {clf.n_iter_} passes")

    prediction = clf.predict_dist(bags[test])
    scores = bag_metrics(y[test], prediction.prob, prediction.threshold, prediction.log_odds)
    print("on test bags:", ", ".join(f"{name} {value:.3f}" for name, value in scores.items()))

    b = int(prediction.prob.argmax())
    print(f"bag {prediction.ids[b]}: probability {prediction.prob[b]:.3f}, standard deviation {prediction.std[b]:.3f}")
    probabilities, deviations = clf.predict_instances(bags[test], return_std=True)
    for n, (p, s) in enumerate(zip(probabilities[b][:5], deviations[b][:5], strict=True)):
        print(f"  instance {n}: probability {p:.3f}, standard deviation {s:.3f}")

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        clf.save(path)
        again = PsiVGPMIL.load(path)
        same = np.array_equal(again.predict_proba(bags[test]), clf.predict_proba(bags[test]))
        print("a loaded model predicts the same bit by bit:", same)


if __name__ == "__main__":
    main()
