"""The slices of a scan that are called positive, with what speaks for it drawn over each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from psimil.figures.canvas import axes_or_new
from psimil.figures.digits import bag_words
from psimil.figures.lettering import axes_points, fitting_size, folded, titled
from psimil.figures.strip import strip_table
from psimil.results.heat import HEAT_WORDS

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from psimil.predictive.prediction import Prediction

MOST, ACROSS = 12, 4  # slices of a sheet, and in a row
CAPTION = 0.22  # height of the words above a slice, by its side
STRONGEST = 0.65  # share of colour over the slice where the heat is greatest
ORANGE = (1.0, 0.55, 0.0)


def heat_table(prediction: Prediction, bag: Any) -> pd.DataFrame:
    """The rows of :func:`psimil.figures.strip_table` that a sheet shows: slices called positive, in axial order.

    Of more than twelve, those with the largest probability.

    Examples
    --------
    >>> from psimil import VGPMIL, datasets
    >>> bags, y, _ = datasets.make_bags(n_bags=10, bag_size=(4, 4), seed=0)
    >>> prediction = VGPMIL(n_inducing=5, random_state=0).fit(bags, y).predict_dist(bags)
    >>> table = heat_table(prediction, int(prediction.label.argmax()))
    >>> len(table) <= 4, bool(table["predicted"].all())
    (True, True)
    """
    table = strip_table(prediction, bag)
    called = table[table["predicted"] == 1]
    return called.sort_values("prob", ascending=False, kind="stable").head(MOST).sort_index()


def plot_heat(
    prediction: Prediction,
    bag: Any,
    images: NDArray[Any],
    heat: NDArray[Any],
    *,
    edges: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Slices that are called positive, each under its heat map; the table behind it is :func:`heat_table`.

    Parameters
    ----------
    prediction, bag : of ``predict_dist``, and position or id of the scan.
    images : (n, height, width) grey slices of the scan, all of them.
    heat : (n, rows, columns) in 0..255 over the same slices.
    edges : which side of the patient is at which edge of the images, see :func:`psimil.results.edges.edge_words`.
    ax : where to draw; a new figure when None.

    Examples
    --------
    >>> from psimil import VGPMIL, datasets
    >>> from psimil.figures import new_figure
    >>> bags, y, _ = datasets.make_bags(n_bags=10, bag_size=(4, 4), seed=0)
    >>> prediction = VGPMIL(n_inducing=5, random_state=0).fit(bags, y).predict_dist(bags)
    >>> scan, grey = int(prediction.label.argmax()), np.zeros((4, 8, 8), np.uint8)
    >>> ax = plot_heat(prediction, scan, grey, grey, ax=new_figure())
    >>> len(ax.images) == 2 * len(heat_table(prediction, scan))
    True
    """
    table = heat_table(prediction, bag)
    rows = max(1, -(-len(table) // ACROSS))
    ax = axes_or_new(ax, (8.0, 2.0 * rows * (1 + CAPTION) + 1.5))
    room = axes_points(ax)[0]
    size = fitting_size(room / ACROSS, 22, largest=9.0)
    black, white = float(images.min()), max(float(images.max()), 1.0)
    for place, (number, prob, std) in enumerate(zip(table["instance"], table["prob"], table["std"], strict=True)):
        row, column = divmod(place, ACROSS)
        top = -row * (1 + CAPTION)
        extent = (column + 0.02, column + 0.98, top - 0.96, top)
        ax.imshow(images[number], cmap="gray", vmin=black, vmax=white, extent=extent)
        ax.imshow(coloured(heat[number]), extent=extent, interpolation="bilinear")
        words = f"slice {number + 1}: {prob:.2f} ± {std:.2f}"
        ax.text(column + 0.5, top + 0.03, words, ha="center", va="bottom", fontsize=size)
    if table.empty:
        ax.text(0.5 * ACROSS, -0.5, "no slice is called positive", ha="center", va="center")
    ax.set(xlim=(0, ACROSS), ylim=(-rows * (1 + CAPTION) + CAPTION, CAPTION), aspect="equal", xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    ax.set_xlabel(folded(HEAT_WORDS + (f" {edges[0].upper()}{edges[1:]}." if edges else ""), room, 9.0), fontsize=9.0)
    whole = strip_table(prediction, bag)
    called = int(whole["predicted"].sum())
    some = f"; the {len(table)} most probable of {called} slices called positive" if called > len(table) else ""
    titled(ax, f"Scan {bag_words(whole)}{some}")
    return ax


def coloured(heat: NDArray[Any]) -> NDArray[np.float64]:
    """A map (rows, columns) in 0..255 as red, green, blue and opacity (rows, columns, 4).

    Examples
    --------
    >>> coloured(np.array([[0, 255]]))[0, :, 3].tolist()
    [0.0, 0.65]
    """
    colour = np.empty((*heat.shape, 4))
    colour[..., :3], colour[..., 3] = ORANGE, heat / 255.0 * STRONGEST
    return colour
