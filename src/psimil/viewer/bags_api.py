"""Routes about the result set and its bags."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Path, Query

from psimil.viewer.answers import BagDetails, BagList, Problem, Summary
from psimil.viewer.bag_details import bag_details
from psimil.viewer.viewed import Viewed
from psimil.viewer.worklist import Shown, Sorting, bag_list, summary

KeyPath = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{12}$")]
WRONG: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": words}
    for status, words in {
        401: "No session.",
        403: "Another host, or a page of another site.",
        413: "The request is too large.",
        431: "The head of the request is too large.",
        422: "A value is not valid.",
    }.items()
}
SENT: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "The request cannot be read."},
    415: {"model": Problem, "description": "The request is not JSON."},
}
UNKNOWN: dict[int | str, dict[str, Any]] = {404: {"model": Problem, "description": "There is no such thing."}}


def numbered(viewed: Viewed, key: str) -> int:
    """Number of the bag with this key; 404 when there is none."""
    number = viewed.number(key)
    if number is None:
        raise HTTPException(404, "no such bag.")
    return number


def bag_routes(viewed: Viewed) -> APIRouter:
    """The routes ``/api/set``, ``/api/bags`` and ``/api/bags/{key}``."""
    routes = APIRouter(responses=WRONG)
    counted = summary(viewed)

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
        return bag_list(viewed, sort, descending, show, offset, limit)

    @routes.get("/api/bags/{key}", responses=UNKNOWN)
    def _bag(key: KeyPath) -> BagDetails:
        return bag_details(viewed, numbered(viewed, key))

    return routes
