"""Routes of pictures: slices in Hounsfield units, and thumbnails."""

from __future__ import annotations

import gzip
import sys
from typing import Annotated, Any

import numpy as np
from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Header, HTTPException, Path, Response
from numpy.typing import NDArray

from psimil.figures.png import encode_png, grid
from psimil.viewer.bags_api import UNKNOWN, WRONG, KeyPath, numbered
from psimil.viewer.viewed import Viewed

READERS = 4  # threads that read scans; other routes never wait for them
Index = Annotated[int, Path(ge=0, le=1_000_000)]
SLICE: dict[str, Any] = {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}
SPRITE: dict[str, Any] = {"content": {"image/png": {"schema": {"type": "string", "format": "binary"}}}}


def slice_routes(viewed: Viewed, *, local: bool) -> APIRouter:
    """The routes ``/api/bags/{key}/slices/{index}`` and ``/api/bags/{key}/sprite``."""
    routes = APIRouter(responses={**WRONG, **UNKNOWN})
    limiter: list[CapacityLimiter] = []

    async def aside(work: Any, *arguments: Any) -> Any:
        if not limiter:
            limiter.append(CapacityLimiter(READERS))
        return await to_thread.run_sync(work, *arguments, limiter=limiter[0])

    @routes.get("/api/bags/{key}/slices/{index}", response_class=Response, responses={200: SLICE})
    async def _slice(key: KeyPath, index: Index, accept_encoding: Annotated[str, Header()] = "") -> Response:
        number = numbered(viewed, key)
        where = viewed.results.instances_of(number)
        if index >= where.stop - where.start:
            raise HTTPException(404, "no such slice.")
        packed = not local and accepts_gzip(accept_encoding)  # packing takes longer than a local connection
        data = await aside(_slice_bytes, viewed, number, index, packed)
        if data is None:
            raise HTTPException(404, "this bag has no slices in Hounsfield units.")
        headers = {"Vary": "Accept-Encoding"} | ({"Content-Encoding": "gzip"} if packed else {})
        return Response(data, media_type="application/octet-stream", headers=headers)

    @routes.get("/api/bags/{key}/sprite", response_class=Response, responses={200: SPRITE})
    async def _sprite(key: KeyPath) -> Response:
        number = numbered(viewed, key)
        images = viewed.results.images
        if images is None:
            raise HTTPException(404, "this bag has no pictures.")
        data = await aside(lambda: encode_png(grid(images[viewed.results.instances_of(number)])))
        return Response(data, media_type="image/png")

    return routes


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


def _slice_bytes(viewed: Viewed, number: int, index: int, packed: bool) -> bytes | None:
    hu: NDArray[np.int16] | None = viewed.slice(number, index)
    if hu is None:
        return None
    data = (hu if sys.byteorder == "little" else hu.byteswap()).tobytes()
    return gzip.compress(data, compresslevel=1, mtime=0) if packed else data
