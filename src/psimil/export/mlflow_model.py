"""A fitted model as an MLflow model: a folder whose weights are a hub's, with no code and no pickle in it."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from psimil.data.bagtable import BAG
from psimil.estimators.psi_vgpmil import PsiVGPMIL
from psimil.estimators.stored import WEIGHTS, facts_of
from psimil.export.bag_scorer import LEVELS, BagScorer
from psimil.export.pretrained import empty_folder, save_pretrained
from psimil.files.rundir import explained
from psimil.foundations.errors import InputError
from psimil.foundations.extras import needed
from psimil.version import VERSION

if TYPE_CHECKING:
    import pandas as pd

TOLD = ("psimil_version", "use", "class_names", "positive_class", "num_features", "feature_names", "threshold",
        "instance_threshold")  # fmt: skip


def save_mlflow(
    estimator: PsiVGPMIL, folder: str | os.PathLike[str], *, bag: str = BAG, position: str | None = None
) -> None:
    """Write a fitted model to a new folder as an MLflow model of the flavour ``python_function``, without pickle.

    Parameters
    ----------
    estimator : fitted.
    folder : must not exist, or be empty. It holds no training rows and no names of bags; feature names are in it.
    bag : column of the bag ids in tables that will be predicted.
    position : their column of positions along each bag, for models of ordered bags; None takes rows as they come.

    Raises
    ------
    InputError
        Where MLflow is not installed, and for a ``bag`` that is the name of a feature or of the positions.
    OutputError
        When there is something in the folder.

    Examples
    --------
    >>> import mlflow
    >>> import pandas as pd
    >>> from psimil import VGPMIL, datasets
    >>> bags, y, _ = datasets.make_bags(n_bags=8, n_features=2, seed=1)
    >>> clf = VGPMIL(n_inducing=4, max_iter=2, tol=0.0, random_state=0).fit(bags, y)
    >>> save_mlflow(clf, "mine", bag="slide")
    >>> frame = pd.DataFrame({"slide": ["a", "b", "a"], "x": [0.0, 1.0, 2.0], "y": [0.5, 1.5, 0.0]})
    >>> mlflow.pyfunc.load_model("mine").predict(frame).columns.tolist()[:4]
    ['bag', 'prob', 'std', 'lower']
    """
    described = _described(estimator, bag, position)
    target = empty_folder(folder)
    with explained(target), _weights(estimator) as given:
        mlflow_package().pyfunc.save_model(path=str(target), **given, **described)


def log_mlflow(estimator: PsiVGPMIL, name: str = "model", *, bag: str = BAG, position: str | None = None) -> Any:
    """Log a fitted model to the MLflow run that is active, as :func:`save_mlflow` writes it.

    Parameters
    ----------
    estimator, bag, position : as for :func:`save_mlflow`.
    name : of the model.

    Returns
    -------
    info : MLflow's ``ModelInfo``; ``mlflow.pyfunc.load_model(info.model_uri)`` loads the model.

    Raises
    ------
    InputError
        Where MLflow is not installed, no run is active, or ``bag`` is the name of a feature.

    Examples
    --------
    >>> from pathlib import Path
    >>> import mlflow
    >>> from psimil import VGPMIL, datasets
    >>> bags, y, _ = datasets.make_bags(n_bags=8, n_features=2, seed=1)
    >>> clf = VGPMIL(n_inducing=4, max_iter=2, tol=0.0, random_state=0).fit(bags, y)
    >>> mlflow.set_tracking_uri(Path("runs"))
    >>> with mlflow.start_run():
    ...     info = log_mlflow(clf)
    >>> mlflow.pyfunc.load_model(info.model_uri).metadata.metadata["num_features"]
    2
    """
    active_run()
    described = _described(estimator, bag, position)
    with _weights(estimator) as given:
        return mlflow_package().pyfunc.log_model(name=name, **given, **described)


def mlflow_package() -> Any:
    """The package mlflow with its parts that are used here; refused where it is not installed."""
    with needed("models and runs of MLflow need MLflow", "mlflow"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of its own types
        import mlflow
        import mlflow.models
        import mlflow.pyfunc
        import mlflow.types.schema
    return mlflow


def active_run() -> Any:
    """The MLflow run that is active; refused where there is none, for MLflow would begin one that nobody ends."""
    run = mlflow_package().active_run()
    if run is None:
        raise InputError("no MLflow run is active. Begin one: with mlflow.start_run(): ...")
    return run


@contextmanager
def _weights(estimator: PsiVGPMIL) -> Iterator[dict[str, Any]]:
    """The folder of the weights, written aside for MLflow to copy, and what is said of it."""
    with TemporaryDirectory() as aside:
        hub = Path(aside) / "psimil"
        save_pretrained(estimator, hub)
        facts, digest = facts_of(estimator), hashlib.sha256((hub / WEIGHTS).read_bytes()).hexdigest()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # MLflow's, of pandas
            yield {"data_path": str(hub), "metadata": {name: facts[name] for name in TOLD} | {"sha256": digest}}


def _described(estimator: PsiVGPMIL, bag: str, position: str | None) -> dict[str, Any]:
    """Loader, columns, signature, example and requirements, as MLflow's functions take them."""
    mlflow = mlflow_package()
    if not isinstance(estimator, PsiVGPMIL):
        kind = type(estimator).__name__
        raise InputError(f"only models of one label can be MLflow models, got {kind}. Save each part of it.")
    estimator._check_fitted()
    names = estimator._feature_names
    if bag == position or bag in (names or ()):
        raise InputError(f'"{bag}" cannot be the column of the bag ids: it is one of numbers. Name another with bag=.')
    example = _example(names or [f"feature {n}" for n in range(1, estimator.n_features_in_ + 1)], bag, position)
    return {
        "loader_module": BagScorer.__module__,
        "model_config": {"bag": bag, "position": position},
        "signature": _signature(mlflow, BagScorer(estimator, bag, position).predict(example)),
        "input_example": example,
        "pip_requirements": [f"mlflow-skinny=={mlflow.__version__}", f"psimil=={VERSION}"],
    }


def _example(features: Sequence[str], bag: str, position: str | None) -> pd.DataFrame:
    """Two bags of made-up instances, all features 0."""
    import pandas as pd

    columns: dict[str, Any] = {bag: ["a", "a", "b"]} | dict.fromkeys(features, 0.0)
    return pd.DataFrame(columns if position is None else columns | {position: [0.0, 1.0, 0.0]})


def _signature(mlflow: Any, found: pd.DataFrame) -> Any:
    """Columns of the table of bags that goes out, and the parameter; of what comes in, psimil says what is wrong.

    MLflow would look at every cell of it, and quote rows with their bag ids where it does not like one.
    """
    types = mlflow.types
    kinds = {"b": "boolean", "i": "long", "f": "double"}
    columns = [types.ColSpec(types.schema.AnyType(), "bag")]
    columns += [types.ColSpec(kinds.get(found[name].dtype.kind, "string"), name) for name in found.columns[1:]]
    level = types.ParamSpec("level", "string", LEVELS[0])
    return mlflow.models.ModelSignature(None, types.Schema(columns), types.ParamSchema([level]))
