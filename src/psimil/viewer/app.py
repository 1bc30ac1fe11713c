"""The viewer as an ASGI application: its routes, its pages without data, and the packaged files that they load."""

from __future__ import annotations

from http import HTTPStatus
from importlib.resources import files
from pathlib import PurePosixPath
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Path, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from fastapi.security import APIKeyCookie
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.exceptions import HTTPException

from psimil.report.calls import NOTE
from psimil.version import VERSION
from psimil.viewer.api import KeyPath, bag_number, bag_routes, feedback_routes, picture_routes, session_routes
from psimil.viewer.security import Guard
from psimil.viewer.settings import Settings
from psimil.viewer.state import ViewerState

NAMES = set("sort descending show offset limit key index bag instance verdict note token".split())
TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".txt": "text/plain; charset=utf-8",
}


def create_app(state: ViewerState, settings: Settings) -> FastAPI:
    """The application: pages, JSON and pictures behind :class:`psimil.viewer.security.Guard`.

    Parameters
    ----------
    state : what is shown.
    settings : address and secrets of this start.
    """
    app = FastAPI(
        title="psimil view", version=VERSION, openapi_url="/api/openapi.json", docs_url=None, redoc_url=None,
        redirect_slashes=False,
    )  # fmt: skip
    cookie = APIKeyCookie(name=settings.cookie, auto_error=False, description="Opened by POST /session.")
    for routes in (bag_routes(state), picture_routes(state, local=settings.is_local), feedback_routes(state)):
        app.include_router(routes, dependencies=[Depends(cookie)])
    for routes in (session_routes(settings), page_routes(state)):
        app.include_router(routes)
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(RequestValidationError, _not_valid)
    app.add_middleware(Guard, settings=settings)
    return app


def static_files() -> dict[str, bytes]:
    """The packaged files by name; nothing else is ever served under ``/static/``.

    Examples
    --------
    >>> all(PurePosixPath(name).suffix in TYPES for name in static_files())
    True
    """
    folder = files("psimil.viewer") / "static"
    return {
        entry.name: entry.read_bytes()
        for entry in folder.iterdir()
        if entry.is_file() and PurePosixPath(entry.name).suffix in TYPES
    }


def page_routes(state: ViewerState) -> APIRouter:
    """The routes ``/``, ``/worklist``, ``/bag/{key}`` and ``/static/{name}``."""
    routes = APIRouter(include_in_schema=False)
    table = static_files()
    templates = Environment(loader=PackageLoader("psimil.viewer"), autoescape=True, undefined=StrictUndefined)

    def page(name: str) -> HTMLResponse:
        return HTMLResponse(templates.get_template(name).render(note=NOTE, version=VERSION, kind=state.results.kind))

    @routes.get("/")
    def _session() -> HTMLResponse:
        return page("session.html")

    @routes.get("/worklist")
    def _worklist() -> HTMLResponse:
        return page("worklist.html")

    @routes.get("/bag/{key}")
    def _bag(key: KeyPath) -> HTMLResponse:
        bag_number(state, key)
        return page("bag.html")

    @routes.get("/static/{name}")
    def _static(name: Annotated[str, Path(max_length=100)]) -> Response:
        if name not in table:
            raise HTTPException(404, "no such file.")
        return Response(table[name], media_type=TYPES[PurePosixPath(name).suffix])

    return routes


async def _refused(_: Request, error: Any) -> JSONResponse:
    words = {404: "there is nothing here.", 405: "this method is not allowed here."}
    is_default = error.detail == HTTPStatus(error.status_code).phrase
    ours = words.get(error.status_code, "refused.") if is_default else error.detail
    return JSONResponse({"error": ours}, error.status_code, headers=error.headers)


async def _not_valid(_: Request, error: Any) -> JSONResponse:
    """Which fields are wrong; what was sent is not repeated."""
    wrong = sorted({str(part) for problem in error.errors() for part in problem["loc"]} & NAMES)
    return JSONResponse({"error": f"not valid: {', '.join(wrong) or 'the request'}."}, 422)
