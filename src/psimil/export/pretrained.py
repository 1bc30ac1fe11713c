"""A folder as model hubs lay it out: model.safetensors, config.json and a model card, README.md."""

from __future__ import annotations

import json
import os
from pathlib import Path

from psimil.estimators.psi_vgpmil import PsiVGPMIL
from psimil.estimators.stored import CONFIG, WEIGHTS, facts_of
from psimil.files.atomic import atomic_write
from psimil.files.paths import as_path
from psimil.files.rundir import explained
from psimil.foundations.errors import OutputError
from psimil.model.features import COLUMNS
from psimil.results.model_card import model_card

CARD = """---
library_name: psimil
tags:
- multiple-instance-learning
- gaussian-process
---

# {model}

Research use only, not a medical device. Trained on {training}.{network}

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
    >>> from psimil import VGPMIL, datasets
    >>> bags, y, _ = datasets.make_bags(n_bags=8, seed=1)
    >>> clf = VGPMIL(n_inducing=4, max_iter=2, tol=0.0, random_state=0).fit(bags, y)
    >>> save_pretrained(clf, "mine")
    >>> sorted(os.listdir("mine"))
    ['README.md', 'config.json', 'model.safetensors']
    >>> again = VGPMIL.from_pretrained("mine")
    >>> bool((again.predict_proba(bags) == clf.predict_proba(bags)).all())
    True
    """
    target = empty_folder(folder)
    estimator.save(target / WEIGHTS)
    card = card_text(estimator, target / WEIGHTS).encode("utf-8", "backslashreplace")
    config = json.dumps(facts_of(estimator), indent=2).encode()
    atomic_write(target / "README.md", lambda stream: stream.write(card))
    atomic_write(target / CONFIG, lambda stream: stream.write(config))


def empty_folder(folder: str | os.PathLike[str]) -> Path:
    """The folder, which is made if need be; refused where there is something in it.

    Examples
    --------
    >>> empty_folder("mine").is_dir()
    True
    """
    target = as_path(folder, "folder")
    with explained(target):
        target.mkdir(parents=True, exist_ok=True)
        if any(target.iterdir()):
            raise OutputError(f"cannot write {target}: it is not empty. Name another folder.")
    return target


def card_text(estimator: PsiVGPMIL, file: Path | None = None) -> str:
    """The model card as hubs and trackers show it, in Markdown; it names neither features nor bags.

    Parameters
    ----------
    estimator : fitted.
    file : the model file, whose SHA-256 the card begins to tell; None leaves that out.

    Examples
    --------
    >>> from psimil import VGPMIL, datasets
    >>> bags, y, _ = datasets.make_bags(n_bags=8, seed=1)
    >>> clf = VGPMIL(n_inducing=4, max_iter=2, tol=0.0, random_state=0).fit(bags, y)
    >>> "# VGPMIL" in card_text(clf).splitlines()
    True
    """
    card = model_card(estimator, file)
    rows = "\n".join(f"| {name} | {value.replace('|', '/')} |" for name, value in card.items())
    known = {name: card[name] for name in ("model", "training", "features")}
    missing = network_words(estimator)
    return CARD.format(rows=rows, network=f"\n\n{missing}" if missing else "", **known)


def network_words(estimator: PsiVGPMIL) -> str:
    """That the network which made the features is left behind, and what scans need; empty where there is none.

    Examples
    --------
    >>> from psimil import VGPMIL
    >>> network_words(VGPMIL(feature_fingerprint="attcnn sha256:1f3a"))[:60]
    'Its features come from a network (attcnn sha256:1f3a), which'
    >>> network_words(VGPMIL())
    ''
    """
    known = estimator.feature_fingerprint
    if known is None or known.startswith(COLUMNS):
        return ""
    return (
        f"Its features come from a network ({known}), which is not stored with it: it predicts rows of these features "
        "alone. To predict CT scans, keep the whole folder of psimil ct train for psimil ct predict."
    )
