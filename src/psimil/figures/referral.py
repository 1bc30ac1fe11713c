"""Error against the share of cases that a model keeps, the least certain ones being referred."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from psimil.figures.canvas import COLOURS, LINES, axes_or_new, check_columns
from psimil.figures.lettering import legend_below, literal, titled
from psimil.foundations.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


def referral_table(curves: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """The curves below each other with a column ``model`` and the error with all cases kept, ``base_error``.

    Parameters
    ----------
    curves : by model, of :func:`psimil.results.referral_curve.referral_curve`; each ends with all cases kept.

    Examples
    --------
    >>> from psimil.results.referral_curve import referral_curve
    >>> curve = referral_curve([0, 1, 1, 0], [0.1, 0.9, 0.4, 0.3], [0.0, 0.1, 0.4, 0.3])
    >>> referral_table({"VGPMIL": curve})["base_error"].tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    import pandas as pd

    if not isinstance(curves, Mapping):
        raise InputError(f'curves must be tables by model, got {type(curves).__name__}. Write {{"VGPMIL": curve}}.')
    if not curves:
        raise InputError("there is no curve to draw.")
    frames = []
    for model, curve in curves.items():
        check_columns(curve, ("fraction_kept", "error"), "psimil.results.referral_curve.referral_curve")
        everything = curve.loc[curve["fraction_kept"] == 1, "error"]
        if everything.empty:
            raise InputError(f"the curve of {model} does not say the error with all cases kept. Add the fraction 1.")
        frame = curve.sort_values("fraction_kept").assign(base_error=float(everything.iloc[0]))
        frame.insert(0, "model", model)
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)


def plot_referral(
    curves: Mapping[str, pd.DataFrame], *, kept: Mapping[str, int] | None = None, ax: Axes | None = None
) -> Axes:
    """Error among the kept cases against their share; thin lines at the error with all cases kept.

    Parameters
    ----------
    curves : see :func:`referral_table`.
    kept : by model, how many cases its own rule keeps; a ring marks the place on the curve, unless none is kept.
    ax : where to draw; a new figure when None.

    Examples
    --------
    >>> from psimil.results.referral_curve import referral_curve
    >>> from psimil.figures import new_figure
    >>> curve = referral_curve([0, 1, 1, 0], [0.1, 0.9, 0.4, 0.3], [0.0, 0.1, 0.4, 0.3])
    >>> plot_referral({"VGPMIL": curve}, ax=new_figure()).get_xlabel()
    'share of cases kept'
    """
    table = referral_table(curves)
    ax = axes_or_new(ax)
    for k, (model, curve) in enumerate(table.groupby("model", sort=False)):
        colour, base = COLOURS[k % len(COLOURS)], float(curve["base_error"].iloc[0])
        ax.axhline(base, color=colour, linewidth=0.8, alpha=0.6)
        ax.plot(curve["fraction_kept"], curve["error"], color=colour, linestyle=LINES[k % len(LINES)], linewidth=2,
                label=f"{literal(model)} (all kept: {base:.3f})")  # fmt: skip
        place = curve[curve["n_kept"] == kept.get(str(model))] if kept else curve[:0]
        if len(place):
            (ring,) = ax.plot(place["fraction_kept"], place["error"], "o", color=colour, markersize=9, clip_on=False)
            ring.set(markerfacecolor="none", markeredgewidth=2, label="kept by the rule of the model")
    top = max(float(table["error"].max()), 0.01)
    ax.set(xlabel="share of cases kept", ylabel="error among the kept", xlim=(-0.01, 1.01),
           ylim=(-0.03 * top, 1.05 * top))  # fmt: skip
    titled(ax, "Error when the least certain cases are referred")
    legend_below(ax)
    return ax
