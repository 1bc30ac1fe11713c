"""What a drawn figure holds, in pixels: error bars, points, legend and texts, and what is in the way of what."""

import itertools

import numpy as np
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from psimil.figures.lettering import SMALLEST


def settled(ax):
    """The renderer of the figure, whose layout is final; a figure is laid out once, since that is slow."""
    figure = ax.get_figure(root=True)
    if not hasattr(figure, "laid_out"):
        figure.draw_without_rendering()
        figure.laid_out = True
    return figure._get_renderer()


def error_ends(ax):
    """((x, y), ...) of both ends of every error bar."""
    lines = [line for container in ax.containers for line in _bars(container)]
    return np.concatenate([np.empty((0, 2)), *(segment for line in lines for segment in line.get_segments())])


def _bars(container):
    bar = getattr(container, "errorbar", container)
    parts = getattr(bar, "lines", None)
    return list(parts[2]) if parts is not None else []


def points(ax):
    """(n, 2) points of lines and error bars in pixels; lines across the whole axes are left out."""
    whole = [line.get_xydata() for line in ax.lines if line.get_transform() == ax.transData]
    found = np.concatenate([*whole, error_ends(ax)])
    return ax.transData.transform(found[np.isfinite(found).all(axis=1)])


def hidden_points(ax):
    """Points outside the axes, where they are cut off."""
    settled(ax)
    box = ax.get_window_extent()
    found = points(ax)
    inside = (found >= [box.x0 - 0.01, box.y0 - 0.01]) & (found <= [box.x1 + 0.01, box.y1 + 0.01])
    return found[~inside.all(axis=1)]


def cut_markers(ax):
    """Markers that reach over an edge of the axes."""
    settled(ax)
    box, scale = ax.get_window_extent(), ax.get_figure(root=True).dpi / 72
    cut = []
    for line in ax.lines:
        if line.get_marker() in ("None", "", None, " ") or not len(line.get_xydata()):
            continue
        radius = scale * line.get_markersize() / 2
        at = ax.transData.transform(line.get_xydata()[np.isfinite(line.get_xydata()).all(axis=1)])
        near = (at - radius < [box.x0, box.y0]) | (at + radius > [box.x1, box.y1])
        cut += at[near.any(axis=1)].tolist() if line.get_clip_on() else []
    return cut


def texts(ax):
    """{text: box} of everything that is written, with a number for each."""
    renderer = settled(ax)
    ticks = [*_shown(ax.xaxis), *_shown(ax.yaxis)] if ax.axison else []
    others = [ax.title, ax.xaxis.label, ax.yaxis.label] if ax.axison else [ax.title]
    legend = ax.get_legend().get_texts() if ax.get_legend() else []
    small = [t for t in ax.get_figure(root=True).findobj(Text) if t is ax.get_figure(root=True)._supxlabel]
    written = [t for t in [*ticks, *others, *legend, *ax.texts, *small] if t.get_text().strip() and t.get_visible()]
    return {(k, t.get_text()): (t, Text.get_window_extent(t, renderer)) for k, t in enumerate(written)}


def _shown(axis):
    low, high = sorted(axis.get_view_interval())
    return [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]


def overlaps(ax):
    """Pairs of texts of which one lies on the other."""
    found = texts(ax)
    pairs = itertools.combinations(found.items(), 2)
    return [(a[1], b[1]) for (a, (_, p)), (b, (_, q)) in pairs if _shrunk(p).overlaps(_shrunk(q))]


def _shrunk(box):
    """Without the room above and below letters."""
    return Bbox.from_extents(box.x0 + 0.5, box.y0 + 1.5, box.x1 - 0.5, box.y1 - 1.5)


def outside(ax):
    """Texts that reach over the edge of the figure."""
    box = ax.get_figure(root=True).bbox
    return [
        name[1]
        for name, (_, e) in texts(ax).items()
        if e.x0 < box.x0 - 1 or e.y0 < box.y0 - 1 or e.x1 > box.x1 + 1 or e.y1 > box.y1 + 1
    ]


def unreadable(ax):
    """Texts smaller than print allows."""
    return [name[1] for name, (t, _) in texts(ax).items() if t.get_fontsize() < SMALLEST - 1e-9]


def under_legend(ax):
    """Points that the legend lies on."""
    settled(ax)
    box = ax.get_legend().get_window_extent()
    return [p for p in points(ax) if box.contains(*p)] + ([box] if box.overlaps(ax.get_window_extent()) else [])


def check(ax):
    """Everything that a figure in a paper must be."""
    assert hidden_points(ax).tolist() == []
    assert cut_markers(ax) == []
    assert overlaps(ax) == []
    assert outside(ax) == []
    assert unreadable(ax) == []
    if ax.get_legend():
        assert under_legend(ax) == []
