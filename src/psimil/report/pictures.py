"""Pictures of a report as data: URIs, drawn by the functions behind the figures of a run."""

from __future__ import annotations

import io
from base64 import b64encode
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from psimil.figures import new_figure, plot_bag, plot_referral, plot_reliability, plot_strip
from psimil.figures.lettering import figure_of
from psimil.foundations.arrays import Array
from psimil.results.edges import Edges, edge_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from psimil.results.result_set import ResultSet

STRIP = 60  # slices up to which a scan is drawn as a strip


def figure_uri(ax: Axes) -> str:
    """A figure as vector graphics; the same figure gives the same text.

    Examples
    --------
    >>> figure_uri(new_figure(1, 1))[:26]
    'data:image/svg+xml;base64,'
    """
    import matplotlib

    stream = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "psimil"}):
        figure_of(ax).savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    return f"data:image/svg+xml;base64,{b64encode(stream.getvalue()).decode()}"


def encode_png(picture: NDArray[np.uint8]) -> bytes:
    r"""A grey picture (rows, columns) in the PNG format.

    Examples
    --------
    >>> encode_png(np.zeros((2, 3), np.uint8))[:8]
    b'\x89PNG\r\n\x1a\n'
    """
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(picture).save(stream, format="png", compress_level=3)
    return stream.getvalue()


def picture_uri(picture: Array) -> str:
    """A grey picture (rows, columns) in 0..255.

    Examples
    --------
    >>> picture_uri(np.zeros((2, 2), np.uint8))[:22]
    'data:image/png;base64,'
    """
    return f"data:image/png;base64,{b64encode(encode_png(picture)).decode()}"


def profile_uri(results: ResultSet, bag: int) -> str:
    """The instances of a bag with their probabilities: a strip of slices for a scan, bars for other bags.

    The picture does not name the bag: a name may have characters that no font has.
    """
    from matplotlib.ticker import MaxNLocator

    prediction, rows = replace(results.prediction, ids=np.arange(len(results))), results.instances_of(bag)
    n = rows.stop - rows.start
    known = results.instance_truth[rows]
    truth = known if (known >= 0).any() else None
    if results.kind == "ct" and results.images is not None and n <= STRIP:
        words, ax = edge_words(Edges.of(results.orientation_of(bag))), new_figure(10.0, 3.3 + 0.9 * min(1.0, 20 / n))
        ax = plot_strip(prediction, bag, truth, results.images[rows], edges=words, ax=ax)
    else:
        ax = plot_bag(prediction, bag, truth, ax=new_figure(min(10.0, 3.0 + 0.5 * n), 2.8))
        ax.set_xlim(-0.6, n - 0.4)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.legend().remove()  # the words below the picture say it
    ax.set_title("")
    return figure_uri(ax)


def reliability_uri(y: Array, prob: Array) -> str:
    """Share of positives against probability; (B,), (B,)."""
    ax = plot_reliability(y, prob, ax=new_figure(5.2, 3.8))
    ax.set_title("")
    return figure_uri(ax)


def referral_uri(y: Array, prob: Array, score: Array, threshold: float) -> str:
    """Error among the cases that are kept, when those of the largest referral score are referred; (B,), (B,), (B,).

    A ring marks what the model refers: scores above 0.
    """
    from psimil.results.referral_curve import referral_curve

    curve, kept = referral_curve(y, prob, score, threshold), int((score <= 0).sum())
    ax = plot_referral({"this model": curve}, kept={"this model": kept}, ax=new_figure(5.2, 3.8))
    ax.set_title("")
    return figure_uri(ax)
