"""The rule that picks one series of a study, in words."""

from __future__ import annotations

from dataclasses import replace

from psimil.ct.study import Series, Study
from psimil.foundations.errors import InputError

ENOUGH_SLICES, ENOUGH_MM = 10, 80.0


def choose_series(study: Study, *, series: str | None = None, thickness: float = 5.0) -> Series:
    """The series of a study that is read, with the reason in ``reason``.

    Axial series of at least 10 slices over at least 80 mm come first, then, in this order: the thickness nearest to the
    wanted one, a kernel that is not for bone, no contrast agent, more slices, the smaller id.

    Parameters
    ----------
    study : of an index.
    series : id of the wanted series; the rule is not asked then.
    thickness : wanted, in millimetres.

    Raises
    ------
    InputError
        When the study has no axial series, or none of that id.

    Examples
    --------
    >>> thin, thick = (Series(f"s{mm}", "a", "axial CT", thickness=mm, coverage=150.0) for mm in (0.6, 5.0))
    >>> choose_series(Study("a", (thin, thick))).id
    's5.0'
    """
    if series is not None:
        for part in study.series:
            if part.id == series and part.usable:
                return replace(part, reason=f"series {part.id} was asked for.")
        ids = ", ".join(part.id for part in study.series if part.usable) or "none"
        raise InputError(f"study {study.id} has no series {series} that can be read. It has: {ids}.")
    axial = [part for part in study.series if part.usable and part.kind.startswith("axial")]
    axial = axial or [part for part in study.series if part.usable and part.kind.endswith("without orientation")]
    if not axial:
        kinds = ", ".join(sorted({part.kind for part in study.series})) or "nothing"
        raise InputError(f"study {study.id} has no axial series; it has: {kinds}. Name one with series=ID (--series).")
    best = min(axial, key=lambda part: _rank(part, thickness))
    return replace(best, reason=_sentence(best, axial, thickness))


def _rank(part: Series, thickness: float) -> tuple[bool, float, bool, bool, int, str]:
    distance = float("inf") if part.thickness is None else round(abs(part.thickness - thickness), 1)
    sharp = any(header.sharp for header in part.slices)
    contrast = any(header.contrast for header in part.slices)
    return (not _is_long(part), distance, sharp, contrast, -part.n_slices, part.id)


def _is_long(part: Series) -> bool:
    return part.n_slices >= ENOUGH_SLICES and part.coverage >= ENOUGH_MM


def _sentence(best: Series, axial: list[Series], thickness: float) -> str:
    thick = "unknown" if best.thickness is None else f"{best.thickness:g} mm"
    size = f"{best.n_slices} slices over {best.coverage:.0f} mm, thickness {thick}"
    if len(axial) == 1:
        return f"the only axial series: {size}."
    short = "" if _is_long(best) else f"; none has {ENOUGH_SLICES} slices over {ENOUGH_MM:g} mm"
    rule = f"thickness nearest to {thickness:g} mm, then soft kernel, no contrast, most slices"
    return f"one of {len(axial)} axial series ({rule}): {size}{short}."
