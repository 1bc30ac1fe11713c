"""The routes that give and take JSON and pictures: sessions, the result set, its bags, slices, feedback."""

from __future__ import annotations

import gzip
import secrets
from datetime import UTC, datetime
from typing import Annotated, Any

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Header, HTTPException, Path, Query, Response

from psimil.foundations.errors import PsimilError
from psimil.results.feedback import Feedback
from psimil.viewer.schemas import KEY, BagDetails, BagList, GivenFeedback, Problem, StoredFeedback, Summary, Token
from psimil.viewer.settings import Settings
from psimil.viewer.state import ViewerState
from psimil.viewer.worklist import Shown, Sorting, bag_details, bag_list, summary

READERS = 4  # threads that read scans; other routes never wait for them
KeyPath = Annotated[str, Path(pattern=KEY)]
Index = Annotated[int, Path(ge=0, le=1_000_000)]
Responses = dict[int | str, dict[str, Any]]


def _problems(words: dict[int, str]) -> Responses:
    return {status: {"model": Problem, "description": text} for status, text in words.items()}


def _binary(kind: str) -> Responses:
    return {200: {"content": {kind: {"schema": {"type": "string", "format": "binary"}}}}}


WRONG = _problems(
    {
        401: "No session.",
        403: "Another host, or a page of another site.",
        413: "The request is too large.",
        431: "The head of the request is too large.",
        422: "A value is not valid.",
    }
)
SENT = _problems({400: "The request cannot be read.", 415: "The request is not JSON."})
UNKNOWN = _problems({404: "There is no such thing."})
TAKEN = _problems({409: "The file of the feedback cannot be written."})


def session_routes(settings: Settings) -> APIRouter:
    """The route ``POST /session`` that gives a cookie for the token of the terminal."""
    routes = APIRouter(responses=WRONG | SENT)

    @routes.post("/session", status_code=204)
    def _session(token: Token) -> Response:
        if not secrets.compare_digest(token.token.encode("utf-8", "surrogatepass"), settings.token.encode()):
            raise HTTPException(401, "the token is not valid. Open the address that psimil view printed.")
        answer = Response(status_code=204)
        answer.set_cookie(settings.cookie, settings.session, httponly=True, samesite="strict", path="/")
        return answer

    return routes


def bag_routes(state: ViewerState) -> APIRouter:
    """The routes ``/api/set``, ``/api/bags`` and ``/api/bags/{key}``."""
    routes = APIRouter(responses=WRONG)
    counted = summary(state)

    @routes.get("/api/set")
    def _set() -> Summary:
        return counted

    @routes.get("/api/bags")
    def _bags(
        sort: Sorting = Sorting.probability,
        descending: bool = True,
        show: Shown = Shown.all,
        offset: Annotated[int, Query(ge=0, le=1_000_000_000)] = 0,
        limit: Annotated[int, Query(ge=1, le=500)] = 100,
    ) -> BagList:
        return bag_list(state, sort, descending, show, offset, limit)

    @routes.get("/api/bags/{key}", responses=UNKNOWN)
    def _bag(
        key: KeyPath, sort: Sorting = Sorting.probability, descending: bool = True, show: Shown = Shown.all
    ) -> BagDetails:
        return bag_details(state, bag_number(state, key), sort, descending, show)

    return routes


def picture_routes(state: ViewerState, *, local: bool) -> APIRouter:
    """The routes ``/slices/{index}``, in Hounsfield units, ``/sprite`` and ``/heat`` of ``/api/bags/{key}``."""
    routes = APIRouter(responses=WRONG | UNKNOWN)
    limiter: list[CapacityLimiter] = []

    async def in_thread(work: Any, *arguments: Any) -> Any:
        if not limiter:
            limiter.append(CapacityLimiter(READERS))
        return await to_thread.run_sync(work, *arguments, limiter=limiter[0])

    @routes.get(
        "/api/bags/{key}/slices/{index}", response_class=Response, responses=_binary("application/octet-stream")
    )
    async def _slice(key: KeyPath, index: Index, accept_encoding: Annotated[str, Header()] = "") -> Response:
        number = bag_number(state, key)
        check_instance(state, number, index, "slice")
        packed = not local and accepts_gzip(accept_encoding)  # packing takes longer than a local connection
        data = await in_thread(_slice_bytes, state, number, index, packed)
        if data is None:
            raise HTTPException(404, "this bag has no slices in Hounsfield units.")
        headers = {"Vary": "Accept-Encoding"} | ({"Content-Encoding": "gzip"} if packed else {})
        return Response(data, media_type="application/octet-stream", headers=headers)

    @routes.get("/api/bags/{key}/sprite", response_class=Response, responses=_binary("image/png"))
    async def _sprite(key: KeyPath) -> Response:
        data = await in_thread(state.sprite, bag_number(state, key))
        if data is None:
            raise HTTPException(404, "this bag has no pictures.")
        return Response(data, media_type="image/png")

    @routes.get("/api/bags/{key}/heat", response_class=Response, responses=_binary("image/png"))
    async def _heat(key: KeyPath) -> Response:
        data = await in_thread(state.heat, bag_number(state, key))
        if data is None:
            raise HTTPException(404, "this bag has no heat maps. Predict it with psimil ct predict --heat.")
        return Response(data, media_type="image/png")

    return routes


def feedback_routes(state: ViewerState) -> APIRouter:
    """The route ``POST /api/feedback`` that takes what readers say."""
    routes = APIRouter(responses=WRONG | UNKNOWN | SENT | TAKEN)

    @routes.post("/api/feedback")
    def _feedback(given: GivenFeedback) -> StoredFeedback:
        number = bag_number(state, given.bag)
        if given.instance is not None:
            check_instance(state, number, given.instance, "instance")
        entry = Feedback(
            state.ids[number],
            given.instance,
            given.verdict,
            cleaned(given.note),
            state.results.estimate(number, given.instance)["label"],
            datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            {effect.name: effect.value for effect in state.results.effects_of(number, given.instance)},
        )
        try:
            state.feedback.record(entry)
        except PsimilError as error:
            raise HTTPException(409, str(error)) from None
        follows: Any = {"called": entry.called, "known": entry.known}
        return StoredFeedback(**given.model_dump() | {"note": entry.note, "when": entry.when} | follows)

    return routes


def bag_number(state: ViewerState, key: str) -> int:
    """Number of the bag with this key; 404 when there is none."""
    if key not in state.numbers:
        raise HTTPException(404, "no such bag.")
    return state.numbers[key]


def check_instance(state: ViewerState, number: int, index: int, noun: str) -> None:
    """404 when the bag has no instance of this index."""
    rows = state.results.instances_of(number)
    if index >= rows.stop - rows.start:
        raise HTTPException(404, f"no such {noun}.")


def cleaned(note: str) -> str:
    r"""The note without control characters other than line breaks and tabs, and without space around it.

    Examples
    --------
    >>> cleaned(" left\x00 side\r\nsmall ")
    'left side\nsmall'
    """
    lines = note.replace("\r\n", "\n").replace("\r", "\n")
    shown = (c for c in lines if c in "\n\t" or not (ord(c) < 32 or 127 <= ord(c) < 160 or 0xD800 <= ord(c) < 0xE000))
    return "".join(shown).strip()


def accepts_gzip(header: str) -> bool:
    """Whether an Accept-Encoding header allows gzip.

    Examples
    --------
    >>> accepts_gzip("gzip, deflate, br"), accepts_gzip("gzip;q=0"), accepts_gzip("identity")
    (True, False, False)
    """
    for part in header.lower().split(","):
        name, _, weight = part.partition(";")
        if name.strip() == "gzip":
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def _slice_bytes(state: ViewerState, number: int, index: int, packed: bool) -> bytes | None:
    hu = state.slice(number, index)
    if hu is None:
        return None
    data = hu.astype("<i2", copy=False).tobytes()
    return gzip.compress(data, compresslevel=1, mtime=0) if packed else data
