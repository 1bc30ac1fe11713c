"""Every exception and warning that psimil raises on purpose."""

from sklearn.exceptions import NotFittedError


class PsimilError(Exception):
    r"""Base of all errors raised on purpose; the message is one line, whatever names it quotes.

    Examples
    --------
    >>> str(InputError('no column "a\nb".'))
    'no column "a b".'
    """

    def __str__(self) -> str:
        return " ".join(super().__str__().splitlines())


class InputError(PsimilError, ValueError):
    """The caller's data or parameters break a rule; the message names the culprit and the cure.

    Examples
    --------
    >>> issubclass(InputError, ValueError)
    True
    """


class MissingFile(InputError):
    """A file the user named is not there."""


class NoBagColumn(InputError):
    """A table has no column of this name that tells which bag its rows belong to."""


class ModelFileError(InputError):
    """A model file is damaged, foreign, or does not follow the schema."""


class NotFitted(InputError, NotFittedError):
    """A prediction was asked of a model that has not been fitted."""


class NumericalFailure(PsimilError, ArithmeticError):
    """A matrix could not be factorised, or a variance came out negative."""


class OutputError(PsimilError, OSError):
    """A result could not be written; what was there before is intact."""


class ClusterFailure(PsimilError, RuntimeError):
    """A cluster is gone, or gave no answer that counts, however often it was asked."""


class ServerFault(PsimilError, OSError):
    """A server gave no answer, or none that counts; it may do so later."""


class DataWarning(UserWarning):
    """The data can be used, but something about it deserves a look.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", DataWarning)
    """
