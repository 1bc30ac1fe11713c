"""What MLflow loads of a model of bags: tables in, tables of predictions out.

MLflow has a loader for models of every library: the file ``MLmodel`` names a module, here this one, whose function
``_load_pyfunc`` makes an object with a method ``predict`` from the files that lie beside. No code lies in the folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from psimil.data.bagtable import BAG, TableOptions, in_memory
from psimil.data.tabular import Table
from psimil.estimators.psi_vgpmil import PsiVGPMIL
from psimil.foundations.errors import InputError
from psimil.model.bag_checks import INSTANCE_LABEL, LABEL
from psimil.model.bags import Bags

LEVELS = ("bags", "instances")


class BagScorer:
    """What ``mlflow.pyfunc`` loads: tables in, the tables of :meth:`psimil.Prediction.to_frame` out.

    Parameters
    ----------
    estimator : fitted.
    bag : column of the bag ids.
    position : column of the positions along each bag; None where rows have no order, or are in it.

    Examples
    --------
    >>> import pandas as pd
    >>> from psimil import VGPMIL, datasets
    >>> bags, y, _ = datasets.make_bags(n_bags=8, n_features=2, seed=1)
    >>> clf = VGPMIL(n_inducing=4, max_iter=2, tol=0.0, random_state=0).fit(bags, y)
    >>> frame = pd.DataFrame({"bag": ["a", "b", "a"], "x": [0.0, 1.0, 2.0], "y": [0.5, 1.5, 0.0]})
    >>> BagScorer(clf).predict(frame)["bag"].tolist(), len(BagScorer(clf).predict(frame, {"level": "instances"}))
    (['a', 'b'], 3)
    """

    def __init__(self, estimator: PsiVGPMIL, bag: str = BAG, position: str | None = None) -> None:
        self.estimator, self.bag, self.position = estimator, bag, position

    def predict(self, model_input: pd.DataFrame, params: Mapping[str, Any] | None = None) -> pd.DataFrame:
        """One row per bag, as the bags first appear; or one per instance, in the order of the rows.

        Parameters
        ----------
        model_input : (N rows) one instance each: its bag and its features, by name where the model knows their names.
        params : ``{"level": "bags"}`` or ``{"level": "instances"}``; None is of bags.
        """
        level = (params or {}).get("level", LEVELS[0])
        if level not in LEVELS:
            raise InputError(f'level must be "bags" or "instances", got {level!r}.')
        found = self.estimator.predict_dist(self._bags(model_input))
        return found.to_frame("bag" if level == LEVELS[0] else "instance")

    def _bags(self, table: Any) -> Bags:
        """The bags of a table, read as ``psimil predict`` reads that of a file; labels are not looked at."""
        if not isinstance(table, pd.DataFrame):
            kind = type(table).__name__
            raise InputError(f"an MLflow model of bags predicts tables with a column of bag ids, got {kind}.")
        names = self.estimator._feature_names
        wanted = {self.bag, self.position, *(names or ())}
        table = table.drop(columns=[name for name in (LABEL, INSTANCE_LABEL) if name in table and name not in wanted])
        options = TableOptions(self.bag, features=names, position=self.position, labels_optional=True)
        return in_memory(Table(lambda: iter([table]), "the table", options)).bags


def _load_pyfunc(path: str, model_config: Mapping[str, Any] | None = None) -> BagScorer:
    """What MLflow calls to load a model that names this module; the folder at ``path`` is a hub's."""
    return BagScorer(PsiVGPMIL.from_pretrained(path), **(model_config or {}))
