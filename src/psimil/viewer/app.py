"""The viewer as an ASGI application."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.security import APIKeyCookie
from starlette.exceptions import HTTPException

from psimil.version import VERSION
from psimil.viewer.bags_api import bag_routes
from psimil.viewer.feedback_api import feedback_routes
from psimil.viewer.pages import page_routes
from psimil.viewer.security import Guard
from psimil.viewer.sessions import session_routes
from psimil.viewer.settings import Settings
from psimil.viewer.slices_api import slice_routes
from psimil.viewer.viewed import Viewed

NAMES = set("sort descending show offset limit key index bag instance verdict note token".split())


def create_app(viewed: Viewed, settings: Settings) -> FastAPI:
    """The application: pages, JSON and pictures behind :class:`psimil.viewer.security.Guard`.

    Parameters
    ----------
    viewed : what is shown.
    settings : address and secrets of this start.
    """
    app = FastAPI(
        title="psimil view", version=VERSION, openapi_url="/api/openapi.json", docs_url=None, redoc_url=None,
        redirect_slashes=False,
    )  # fmt: skip
    cookie = APIKeyCookie(name=settings.cookie, auto_error=False, description="Opened by POST /session.")
    for routes in (bag_routes(viewed), slice_routes(viewed, local=settings.is_local), feedback_routes(viewed)):
        app.include_router(routes, dependencies=[Depends(cookie)])
    for routes in (session_routes(settings), page_routes(viewed)):
        app.include_router(routes)
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(RequestValidationError, _not_valid)
    app.add_middleware(Guard, settings=settings)
    return app


async def _refused(_: Request, error: Any) -> JSONResponse:
    words = {404: "there is nothing here.", 405: "this method is not allowed here."}
    ours = words.get(error.status_code, "refused.") if error.detail == _phrase(error.status_code) else error.detail
    return JSONResponse({"error": ours}, error.status_code, headers=error.headers)


async def _not_valid(_: Request, error: Any) -> JSONResponse:
    """Which fields are wrong; what was sent is not repeated."""
    wrong = sorted({str(part) for found in error.errors() for part in found["loc"]} & NAMES)
    return JSONResponse({"error": f"not valid: {', '.join(wrong) or 'the request'}."}, 422)


def _phrase(status: int) -> str:
    return HTTPStatus(status).phrase
