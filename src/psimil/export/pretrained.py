"""A folder as model hubs lay it out: model.safetensors, config.json and a model card, README.md."""

from __future__ import annotations

import json
import os
from typing import Any

from psimil.estimators.psi_vgpmil import PsiVGPMIL
from psimil.estimators.stored import WEIGHTS
from psimil.files.atomic import atomic_write
from psimil.files.paths import as_path
from psimil.files.rundir import explained
from psimil.foundations.errors import OutputError
from psimil.results.model_card import model_card
from psimil.version import VERSION

CARD = """---
library_name: psimil
tags:
- multiple-instance-learning
- gaussian-process
---

# {model}

Research use only, not a medical device. Trained on {training}.

```python
from psimil import PsiVGPMIL

model = PsiVGPMIL.from_pretrained("this folder")
model.predict_proba(bags)  # a list of arrays, one row of {features} features per instance
```

| | |
|---|---|
{rows}
"""


def save_pretrained(estimator: PsiVGPMIL, folder: str | os.PathLike[str]) -> None:
    """Write a fitted model to a new folder, which :meth:`PsiVGPMIL.from_pretrained` reads and a hub can take as it is.

    Parameters
    ----------
    folder : must not exist, or be empty. It holds no training rows and no names of bags; feature names are in it.

    Raises
    ------
    OutputError
        When there is something in the folder.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from psimil import VGPMIL
    >>> from psimil.datasets import make_bags
    >>> bags, y, _ = make_bags(n_bags=8, seed=1)
    >>> clf = VGPMIL(n_inducing=4, max_iter=2, tol=0.0, random_state=0).fit(bags, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_pretrained(clf, Path(folder) / "mine")
    ...     again = VGPMIL.from_pretrained(Path(folder) / "mine")
    ...     sorted(path.name for path in (Path(folder) / "mine").iterdir())
    ['README.md', 'config.json', 'model.safetensors']
    >>> bool((again.predict_proba(bags) == clf.predict_proba(bags)).all())
    True
    """
    target = as_path(folder, "folder")
    with explained(target):
        target.mkdir(parents=True, exist_ok=True)
        if any(target.iterdir()):
            raise OutputError(f"cannot write {target}: it is not empty. Name another folder.")
    estimator.save(target / WEIGHTS)
    card = model_card(estimator, target / WEIGHTS)
    rows = "\n".join(f"| {name} | {value.replace('|', '/')} |" for name, value in card.items())
    known = {name: card[name] for name in ("model", "training", "features")}
    card_text = CARD.format(rows=rows, **known).encode("utf-8", "backslashreplace")
    config = json.dumps(facts_of(estimator), indent=2).encode()
    atomic_write(target / "README.md", lambda stream: stream.write(card_text))
    atomic_write(target / "config.json", lambda stream: stream.write(config))


def facts_of(estimator: PsiVGPMIL) -> dict[str, Any]:
    """What a file says of the model in it, for programs: version, classes, features, thresholds, training counts."""
    model, names = estimator.model_, estimator._feature_names
    return {
        "library_name": "psimil",
        "psimil_version": VERSION,
        "use": "research use only, not a medical device",
        "num_classes": 2,
        "class_names": [str(label) for label in estimator.classes_.tolist()],
        "positive_class": str(estimator.positive_),
        "num_features": model.n_features,
        "feature_names": None if names is None else list(names),
        "feature_fingerprint": estimator.feature_fingerprint,
        "threshold": model.threshold,
        "instance_threshold": model.instance_threshold,
        "referral_margin": None if model.referral is None else model.referral.margin,
        "training_counts": estimator.training_counts_,
    }
