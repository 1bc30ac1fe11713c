"""The child process that decodes compressed images, run as a script by :mod:`psimil.ct.dicom.sandbox`.

It imports nothing of psimil, limits its own memory, processor time and files, and answers every request on standard
input (a line of JSON, then the compressed bytes) by a line of JSON and the pixels. No text of an error leaves it.
"""

from __future__ import annotations

import json
import sys
from typing import Any, BinaryIO

MEMORY, SECONDS = 1 << 30, 10
FORBIDDEN = "pylibjpeg"  # may bring a codec under the GPL


def limit_process(memory: int = MEMORY) -> None:
    """Cap address space, core dumps and written files of this process where the system can."""
    import resource

    for kind, value in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, 0)):
        try:
            resource.setrlimit(kind, (value, value))
        except (OSError, ValueError):
            continue


def limit_seconds(seconds: int = SECONDS) -> None:
    """Let the system end this process when it computes longer than that from now."""
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    soft = int(used.ru_utime + used.ru_stime) + seconds + 1
    resource.setrlimit(resource.RLIMIT_CPU, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def decode(syntax: str, frame: bytes, image: dict[str, Any]) -> tuple[str, bytes]:
    """What went wrong (empty: nothing), and the pixels, little-endian.

    Examples
    --------
    >>> decode("1.2.3", b"", {})
    ('codec', b'')
    """
    import numpy as np

    try:
        from pydicom.encaps import encapsulate
        from pydicom.pixels.decoders.base import get_decoder

        decoder = get_decoder(syntax)
        plugins = [name for name in decoder.available_plugins if name != FORBIDDEN]
    except (ImportError, NotImplementedError):
        plugins = []
    if not plugins:
        return "codec", b""
    problem = "damaged"
    for plugin in plugins:
        try:
            pixels, _ = decoder.as_array(encapsulate([frame]), raw=True, decoding_plugin=plugin, **image)
            kind = "i" if image["pixel_representation"] else "u"
            pixels = np.ascontiguousarray(pixels, f"<{kind}{image['bits_allocated'] // 8}")
            return "", pixels.tobytes()
        except MemoryError:
            problem = "memory"
        except Exception:  # whatever a codec raises on damaged bytes
            continue
    return problem, b""


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until the input ends."""
    while line := requests.readline():
        request = json.loads(line)
        frame = requests.read(request["bytes"])
        limit_seconds()
        problem, pixels = decode(request["syntax"], frame, request["image"])
        answers.write(json.dumps({"problem": problem, "bytes": len(pixels)}).encode() + b"\n")
        answers.write(pixels)
        answers.flush()


if __name__ == "__main__":
    import logging
    import warnings

    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    limit_process()
    serve(sys.stdin.buffer, sys.stdout.buffer)
