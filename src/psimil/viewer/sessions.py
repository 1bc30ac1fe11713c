"""The route that opens a session: the token of the terminal for a cookie."""

from __future__ import annotations

import secrets

from fastapi import APIRouter, HTTPException, Response

from psimil.viewer.answers import Token
from psimil.viewer.bags_api import SENT, WRONG
from psimil.viewer.settings import Settings


def session_routes(settings: Settings) -> APIRouter:
    """The route ``POST /session``."""
    routes = APIRouter(responses={**WRONG, **SENT})

    @routes.post("/session", status_code=204)
    def _session(token: Token) -> Response:
        if not secrets.compare_digest(token.token.encode("utf-8", "surrogatepass"), settings.token.encode()):
            raise HTTPException(401, "the token is not valid. Open the address that psimil view printed.")
        answer = Response(status_code=204)
        answer.set_cookie(settings.cookie, settings.session, httponly=True, samesite="strict", path="/")
        return answer

    return routes
