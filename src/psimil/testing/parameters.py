"""Parameters: stored as given, readable, settable, cloned."""

from __future__ import annotations

import inspect

from sklearn.base import clone, is_classifier

from psimil.testing.expectations import demand, refuses
from psimil.testing.subject import Subject


def check_estimator_repr(subject: Subject) -> None:
    """The text of an estimator names its class."""
    demand(type(subject.estimator).__name__ in repr(subject.estimator), "repr does not name the class")


def check_classifier(subject: Subject) -> None:
    """scikit-learn sees a classifier, so that its splitters stratify by label."""
    demand(is_classifier(subject.estimator), "scikit-learn does not see a classifier")


def check_parameters_default_constructible(subject: Subject) -> None:
    """The class can be made without arguments."""
    made = type(subject.estimator)()
    demand(set(made.get_params(deep=False)) == _signature(subject), "parameters differ from the arguments of __init__")


def check_no_attributes_set_in_init(subject: Subject) -> None:
    """__init__ stores its arguments and nothing else."""
    extra = set(vars(subject.fresh())) - _signature(subject)
    demand(not extra, f"__init__ sets {sorted(extra)}")


def check_parameters_stored_verbatim(subject: Subject) -> None:
    """__init__ neither copies nor changes what it is given."""
    given = {name: object() for name in _signature(subject)}
    made = type(subject.estimator)(**given)
    changed = [name for name, value in given.items() if getattr(made, name) is not value]
    demand(not changed, f"__init__ changes {changed}")


def check_get_params_invariance(subject: Subject) -> None:
    """Shallow parameters are part of the deep ones."""
    shallow, deep = (subject.estimator.get_params(deep=deep) for deep in (False, True))
    demand(set(shallow) <= set(deep), "get_params(deep=False) has names that deep=True lacks")
    demand(set(shallow) == _signature(subject), "get_params does not name the arguments of __init__")


def check_set_params(subject: Subject) -> None:
    """set_params returns the estimator and takes back what get_params gave."""
    made = subject.fresh()
    before = made.get_params(deep=False)
    demand(made.set_params(**before) is made, "set_params does not return the estimator")
    demand(all(made.get_params(deep=False)[name] is value for name, value in before.items()), "a value changed")


def check_set_params_unknown(subject: Subject) -> None:
    """A parameter that does not exist is refused."""
    made = type(subject.estimator)(**subject.estimator.get_params(deep=False))
    refuses(lambda: made.set_params(no_such_parameter=1), what="a parameter that does not exist")


def check_clone(subject: Subject) -> None:
    """A clone has the class and the parameters, and is another object."""
    original = subject.estimator
    copy = clone(original)
    demand(type(copy) is type(original), "the clone has another class")
    demand(copy is not original, "the clone is the original")
    demand(repr(copy.get_params()) == repr(original.get_params()), "the clone has other parameters")


def check_clone_of_fitted(subject: Subject) -> None:
    """A clone of a fitted estimator knows nothing of the fit."""
    extra = set(vars(clone(subject.fitted))) - _signature(subject)
    demand(not extra, f"the clone keeps {sorted(extra)}")


def check_dont_overwrite_attributes(subject: Subject) -> None:
    """Fit adds only attributes that end or begin with an underscore."""
    added = set(vars(subject.fitted)) - set(vars(subject.fresh()))
    public = sorted(name for name in added if not (name.endswith("_") or name.startswith("_")))
    demand(not public, f"fit adds {public}")


def check_fit_leaves_parameters(subject: Subject) -> None:
    """Fit changes no parameter."""
    made = subject.fresh()
    before = made.get_params(deep=False)
    told = repr(before)
    made.fit(subject.bags, subject.y)
    after = made.get_params(deep=False)
    changed = [name for name, value in before.items() if after[name] is not value]
    demand(not changed, f"fit replaces {changed}")
    demand(repr(after) == told, "fit changes the inside of a parameter")


def _signature(subject: Subject) -> set[str]:
    """Names of the arguments of __init__."""
    return set(inspect.signature(type(subject.estimator)).parameters)
