"""The contract of a multiple instance learning estimator, as checks that anybody's estimator can be put through.

:func:`check_mil_estimator` runs them all; :func:`mil_checks` hands them out one by one, for parametrised tests.
"""

from psimil.testing.battery import check_mil_estimator, mil_checks

__all__ = ["check_mil_estimator", "mil_checks"]
