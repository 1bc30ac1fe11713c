"""pydicom without its voice: its warnings and log records quote values of the header."""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from psimil.foundations.errors import InputError
from psimil.foundations.extras import install_command

LOCK = threading.RLock()  # filters of warnings belong to the whole process


@contextmanager
def quiet_pydicom() -> Iterator[ModuleType]:
    """pydicom with its warnings and its log switched off inside the block.

    Raises
    ------
    InputError
        When pydicom is not installed.

    Examples
    --------
    >>> with quiet_pydicom() as pydicom:
    ...     pydicom.__name__
    'pydicom'
    """
    logger = logging.getLogger("pydicom")
    with LOCK, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import pydicom
        except ImportError:
            raise InputError(f"reading CT needs pydicom. Install it with: {install_command('ct')}") from None
        before, logger.disabled = logger.disabled, True
        try:
            yield pydicom
        finally:
            logger.disabled = before
