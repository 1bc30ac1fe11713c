"""scikit-learn's grid search over bags, with a transformer that works instance by instance."""

import numpy as np
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import Pipeline

from psimil import VGPMIL, datasets, instancewise


def main() -> None:
    bags, y = datasets.load_musk1()
    pipeline = Pipeline([("pca", instancewise(PCA(random_state=0))), ("mil", VGPMIL(random_state=0))])
    search = GridSearchCV(
        pipeline,
        {"pca__transformer__n_components": [10, 30], "mil__n_inducing": [20, 50]},
        scoring={"auc": "roc_auc", "log_loss": "neg_log_loss"},
        refit="auc",
        cv=StratifiedKFold(3, shuffle=True, random_state=0),
        n_jobs=2,
    )
    search.fit(bags, y)
    for setting, auc, loss in zip(
        search.cv_results_["params"],
        search.cv_results_["mean_test_auc"],
        -search.cv_results_["mean_test_log_loss"],
        strict=True,
    ):
        print(f"{setting}: AUC {auc:.3f}, log-loss {loss:.3f} on validation bags")
    print("best:", search.best_params_)
    print("probabilities of the first bags:", np.round(search.predict_proba(bags[:3])[:, 1], 3))


if __name__ == "__main__":
    main()
