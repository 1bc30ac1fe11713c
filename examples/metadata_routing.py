"""scikit-learn's metadata routing: weights of bags, known instance labels and patients through a cross-validation."""

import numpy as np
import sklearn
from sklearn.metrics import get_scorer
from sklearn.model_selection import StratifiedGroupKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from psimil import VGPMIL, datasets, instancewise


def main() -> None:
    bags, y, instances = datasets.make_bags(n_bags=60, seed=3)
    patients = np.arange(60) // 2  # two bags of each patient, which stay on one side of every split
    weights = np.where(y == 1, 2.0, 1.0)
    known = [part if number % 4 == 0 else np.full(len(part), -1) for number, part in enumerate(bags.split(instances))]
    with sklearn.config_context(enable_metadata_routing=True):
        model = VGPMIL(n_inducing=15, random_state=0).set_fit_request(sample_weight=True, y_instances=True)
        auc, loss = (get_scorer(name).set_score_request(sample_weight=False) for name in ("roc_auc", "neg_log_loss"))
        scores = cross_validate(
            make_pipeline(instancewise(StandardScaler()), model),
            bags,
            y,
            scoring={"auc": auc, "log_loss": loss},
            cv=StratifiedGroupKFold(3, shuffle=True, random_state=0),
            params={"sample_weight": weights, "y_instances": known, "groups": patients},
        )
    for fold, (auc, loss) in enumerate(zip(scores["test_auc"], -scores["test_log_loss"], strict=True), 1):
        print(f"fold {fold}: AUC {auc:.3f}, log-loss {loss:.3f} on bags of other patients")


if __name__ == "__main__":
    main()
