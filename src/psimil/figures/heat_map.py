"""A slide as a heat map: the probability of every patch where it lies."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from psimil.figures.canvas import RED, axes_or_new
from psimil.figures.lettering import figure_of, legend_below, titled
from psimil.results.slide_results import bag_of, slide_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from psimil.data.bagtable import Slide
    from psimil.predictive.prediction import Prediction

PIXELS = 1000  # of the longer side of a picture
FINE = 8  # pixels along a patch where there are few


def plot_slide(prediction: Prediction, slide: Slide, *, ax: Axes | None = None) -> Axes:
    """Patches where they lie, the brighter, the more probable; those unlike the training data have a cross.

    The table behind it is :func:`psimil.results.slide_results.slide_table`.

    Parameters
    ----------
    prediction : of ``predict_dist``.
    slide : one of the :class:`psimil.data.bagtable.Slide` of the table that was predicted.
    ax : where to draw; a new figure when None.

    Examples
    --------
    >>> from psimil import VGPMIL, datasets
    >>> from psimil.data.bagtable import Slide
    >>> from psimil.figures import new_figure
    >>> bags, y, _ = datasets.make_bags(n_bags=10, bag_size=(4, 4), seed=0)
    >>> prediction = VGPMIL(n_inducing=5, random_state=0).fit(bags, y).predict_dist(bags)
    >>> slide = Slide("s2", 4, np.array([[0, 0], [256, 0], [0, 256], [512, 256]]), {})
    >>> plot_slide(prediction, slide, ax=new_figure()).images[0].get_array().shape
    (16, 24)
    """
    table, b = slide_table(prediction, slide), bag_of(prediction, slide)
    ax = axes_or_new(ax)
    picture, extent = raster(slide.coords, slide.side, table["prob"].to_numpy())
    image = ax.imshow(picture, cmap="cividis", vmin=0.0, vmax=1.0, extent=extent, interpolation="nearest")
    ax.set_facecolor("0.92")
    figure_of(ax).colorbar(image, ax=ax, label="probability of the patch")
    ax.set(xlabel="x, pixels", ylabel="y, pixels")
    whose = "" if str(prediction.ids[b]) == slide.name else f" of bag {prediction.ids[b]}"
    titled(ax, f"Slide {slide.name}{whose}: probability {prediction.prob[b]:.3f} ± {prediction.std[b]:.3f}")
    novel = prediction.instance_novel[slide.rows]
    if novel.any():
        x, y = (slide.coords[novel] + slide.side / 2).T
        ax.plot(x, y, "x", color=RED, markersize=3, label="unlike the training data")
        legend_below(ax)
    return ax


def raster(
    coords: NDArray[Any], side: float, values: NDArray[Any]
) -> tuple[NDArray[Any], tuple[float, float, float, float]]:
    """Values (n,) of squares painted on a grid, nan where there is none and the mean where some overlap.

    Parameters
    ----------
    coords : (n, 2) upper left corners of the squares.
    side : of a square.

    Returns
    -------
    picture : (rows, columns), at most 1000 of either.
    extent : left, right, bottom and top edge, in the units of ``coords``.

    Examples
    --------
    >>> picture, extent = raster(np.array([[0, 0], [8, 0]]), 8.0, np.array([0.25, 0.75]))
    >>> picture.shape, picture[0, [0, -1]].tolist(), extent
    ((8, 16), [0.25, 0.75], (0.0, 16.0, 8.0, 0.0))
    """
    corner = coords.min(axis=0).astype(float)
    span = coords.max(axis=0) - corner + side
    pixel = max(side / FINE, float(span.max()) / PIXELS)
    columns, rows = (min(PIXELS, math.ceil(length / pixel - 1e-9)) for length in span)
    total, count = np.zeros((rows, columns)), np.zeros((rows, columns))
    broad = max(1, round(side / pixel))
    starts = np.minimum(np.rint((coords - corner) / pixel).astype(int), [columns - 1, rows - 1])
    for (left, top), value in zip(starts.tolist(), values.tolist(), strict=True):
        total[top : top + broad, left : left + broad] += value
        count[top : top + broad, left : left + broad] += 1
    picture = np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)
    right, bottom = corner[0] + columns * pixel, corner[1] + rows * pixel
    return picture, (float(corner[0]), float(right), float(bottom), float(corner[1]))
