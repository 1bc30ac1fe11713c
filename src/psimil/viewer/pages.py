"""Pages without data, and the files that they load; all come from the package, by name."""

from __future__ import annotations

from importlib.resources import files
from pathlib import PurePosixPath
from typing import Annotated

from fastapi import APIRouter, HTTPException, Path, Response
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

from psimil.version import VERSION
from psimil.viewer.answers import NOTE
from psimil.viewer.bags_api import KeyPath, numbered
from psimil.viewer.viewed import Viewed

TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".txt": "text/plain; charset=utf-8",
}


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


def page_routes(viewed: Viewed) -> APIRouter:
    """The routes ``/``, ``/worklist``, ``/bag/{key}`` and ``/static/{name}``."""
    routes = APIRouter(include_in_schema=False)
    table = static_files()
    templates = Environment(loader=PackageLoader("psimil.viewer"), autoescape=True, undefined=StrictUndefined)

    def page(name: str) -> HTMLResponse:
        return HTMLResponse(templates.get_template(name).render(note=NOTE, version=VERSION, kind=viewed.results.kind))

    @routes.get("/")
    def _session() -> HTMLResponse:
        return page("session.html")

    @routes.get("/worklist")
    def _worklist() -> HTMLResponse:
        return page("worklist.html")

    @routes.get("/bag/{key}")
    def _bag(key: KeyPath) -> HTMLResponse:
        numbered(viewed, key)
        return page("bag.html")

    @routes.get("/static/{name}")
    def _static(name: Annotated[str, Path(max_length=100)]) -> Response:
        if name not in table:
            raise HTTPException(404, "no such file.")
        return Response(table[name], media_type=TYPES[PurePosixPath(name).suffix])

    return routes
