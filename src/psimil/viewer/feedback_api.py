"""The route that takes what readers say."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, HTTPException

from psimil.foundations.errors import PsimilError
from psimil.results.feedback import Feedback
from psimil.viewer.answers import Kept, Problem, Said
from psimil.viewer.bags_api import SENT, UNKNOWN, WRONG, numbered
from psimil.viewer.viewed import Viewed

TAKEN: dict[int | str, dict[str, Any]] = {
    409: {"model": Problem, "description": "The file of the feedback cannot be written."},
}


def feedback_routes(viewed: Viewed) -> APIRouter:
    """The route ``POST /api/feedback``."""
    routes = APIRouter(responses={**WRONG, **UNKNOWN, **SENT, **TAKEN})

    @routes.post("/api/feedback")
    def _feedback(said: Said) -> Kept:
        number = numbered(viewed, said.bag)
        entry = Feedback(
            viewed.ids[number],
            said.instance,
            said.verdict,
            cleaned(said.note),
            _called(viewed, number, said.instance),
            datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            viewed.results.seen(number, said.instance),
        )
        try:
            viewed.feedback.record(entry)
        except PsimilError as error:
            raise HTTPException(409, str(error)) from None
        return Kept(
            bag=said.bag,
            instance=said.instance,
            verdict=said.verdict,
            note=entry.note,
            called=1 if entry.called else 0,
            known=None if entry.known is None else 1 if entry.known else 0,
            when=entry.when,
        )

    return routes


def cleaned(note: str) -> str:
    r"""The note without control characters other than line breaks and tabs, and without space around it.

    Examples
    --------
    >>> cleaned(" left\x00 side\r\nsmall ")
    'left side\nsmall'
    """
    lines = note.replace("\r\n", "\n").replace("\r", "\n")
    kept = (c for c in lines if c in "\n\t" or not (ord(c) < 32 or 127 <= ord(c) < 160 or 0xD800 <= ord(c) < 0xE000))
    return "".join(kept).strip()


def _called(viewed: Viewed, number: int, instance: int | None) -> int:
    found, where = viewed.results.prediction, viewed.results.instances_of(number)
    if instance is None:
        return int(found.prob[number] >= found.threshold)
    if instance >= where.stop - where.start:
        raise HTTPException(404, "no such instance.")
    return int(viewed.instances["called"][where.start + instance])
