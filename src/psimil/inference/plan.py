"""The phases of a fit: their names, about how long they take, and how far its passes have come."""

from __future__ import annotations

from psimil.inference import cross_fit, kernel_search
from psimil.inference.fitting import Pass, Schedule
from psimil.inference.monitors import SETTLING, Convergence
from psimil.inference.options import Options
from psimil.inference.phases import PASSES, REFITS, RIVALS, THRESHOLDS, tell, tell_plan

CLIMB = 3.0 * (Schedule().last + SETTLING)  # steps of the kernel between passes make them three times as long
REST = 2.0 * SETTLING


def tell_phases(options: Options, *, taught_first: bool, moves: bool, guarded: bool, refitted: bool) -> None:
    """Tell the phases that a fit is to go through, each with the passes that it is worth.

    Parameters
    ----------
    taught_first : the kernel is learned in passes of its own.
    moves : the kernel is learned at all.
    guarded, refitted : other kernels are tried, and bags held out by refits.
    """
    plan = {PASSES["kernel"]: CLIMB} if taught_first else {}
    plan[PASSES["fit"]] = CLIMB if moves and not taught_first else REST
    if guarded or options.hyperparameters == "loo":
        plan |= {RIVALS: 4.0 * kernel_search.PASSES, PASSES["loo"]: REST}
    if refitted:
        plan[REFITS] = float(cross_fit.FOLDS * cross_fit.PASSES)
    tell_plan(plan | {THRESHOLDS: REST})


def tell_pass(stage: str, record: Pass, convergence: Convergence, options: Options, moves: int | None) -> None:
    """Tell that a pass is done, how the bound moved, and how many passes there may be in all.

    Parameters
    ----------
    moves : the pass after which the kernel moves for the last time; None where it stays.
    """
    most = max(options.max_iter, 1)
    of = None if options.early_stopping else convergence.expected(record.step, moves, most)
    notes = [f"at most {most}"] if of is None else []
    notes += [f"bound {rise:+.1g} per bag" for rise in convergence.rises[-1:]]
    tell(PASSES[stage], record.step, of, ", ".join(notes))
