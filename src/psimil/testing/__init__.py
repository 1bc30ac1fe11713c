"""The contract of a multiple instance learning estimator, as checks that anybody's estimator can be put through.

:func:`check_mil_estimator` runs them all; :func:`mil_checks` hands them out one by one, for parametrised tests.
:func:`check_mil_assumption` finds out whether an estimator keeps the multiple instance assumption when training bags
tempt it not to, on bags of :func:`single_concept`, :func:`two_concepts` and :func:`false_frequency`.
"""

from psimil.testing.contract import check_mil_estimator, mil_checks
from psimil.testing.traps import (
    TRAPS,
    Trap,
    TrapScores,
    check_mil_assumption,
    false_frequency,
    single_concept,
    trap_scores,
    two_concepts,
)

__all__ = [
    "TRAPS",
    "Trap",
    "TrapScores",
    "check_mil_assumption",
    "check_mil_estimator",
    "false_frequency",
    "mil_checks",
    "single_concept",
    "trap_scores",
    "two_concepts",
]
