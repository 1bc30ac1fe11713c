"""Compressed images are decoded in a child process: a crash or a bomb in a codec costs one slice, not the program."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from psimil.ct.dicom.headers import Header
from psimil.foundations.errors import InputError
from psimil.foundations.extras import install_command

WALL_SECONDS = 60.0  # for a busy machine; the child's own limit is 10 s of computing
LONGEST_ANSWER = 1000
STANDARD_SYNTAX = re.compile(r"1\.2\.840\.10008\.1\.2\.\d{1,2}(\.\d{1,3})?")  # others may hold anything
COMMAND = (sys.executable, "-P", str(Path(__file__).with_name("decoder.py")))


class Sandbox:
    """A decoder in another process, started when first needed and again after it died.

    Parameters
    ----------
    command : of the child.
    seconds : after which it is ended.

    Examples
    --------
    >>> with Sandbox() as sandbox:
    ...     sandbox.running
    False
    """

    def __init__(self, command: Sequence[str] = COMMAND, seconds: float = WALL_SECONDS) -> None:
        self.command = tuple(command)
        self.seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        """Whether there is a child now."""
        return self._process is not None

    def decode(self, header: Header, frame: bytes) -> NDArray[Any]:
        """Pixels of a compressed image.

        Parameters
        ----------
        header : of the image.
        frame : compressed bytes.

        Returns
        -------
        stored : (rows, columns) whole numbers.

        Raises
        ------
        InputError
            When there is no codec, the bytes are damaged, or the decoder broke a limit or died.
        """
        try:
            problem, pixels = self._exchange(header, frame)
        except (OSError, ValueError, KeyError):
            over = self._ended() in (-signal.SIGXCPU, -signal.SIGKILL)  # the next image gets a new child
            limit = "decompressing takes longer or needs more memory than is allowed."
            raise InputError(limit if over else "its compressed pixel data crashed the decoder.") from None
        if problem == "codec":
            known = header.syntax if STANDARD_SYNTAX.fullmatch(header.syntax) else "of an unknown kind"
            raise InputError(f"compression {known} needs an extra codec. Install it with: {install_command('ct')}")
        if problem == "memory":
            raise InputError("decompressing needs more memory than is allowed.")
        if problem or len(pixels) != header.frame_bytes:
            raise InputError("compressed pixel data is damaged.")
        dtype = f"<{'i' if header.signed else 'u'}{header.bits_allocated // 8}"
        return np.frombuffer(bytearray(pixels), dtype).reshape(header.rows, header.columns)

    def _exchange(self, header: Header, frame: bytes) -> tuple[str, bytes]:
        """Problem and bytes from the child, which is ended when it takes too long."""
        process = self._process or self._started()
        assert process.stdin is not None and process.stdout is not None
        image = {
            "rows": header.rows,
            "columns": header.columns,
            "samples_per_pixel": 1,
            "number_of_frames": 1,
            "bits_allocated": header.bits_allocated,
            "bits_stored": header.bits_stored,
            "pixel_representation": int(header.signed),
            "photometric_interpretation": header.photometric or "MONOCHROME2",
        }
        request = {"syntax": header.syntax, "bytes": len(frame), "image": image}
        timer = threading.Timer(self.seconds, process.kill)
        timer.start()
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n" + frame)
            process.stdin.flush()
            answer = json.loads(process.stdout.readline(LONGEST_ANSWER))
            length = min(int(answer["bytes"]), header.frame_bytes + 1)
            return str(answer["problem"]), process.stdout.read(length)
        finally:
            timer.cancel()

    def _started(self) -> subprocess.Popen[bytes]:
        environment = {name: os.environ[name] for name in ("PYTHONPATH", "LD_LIBRARY_PATH") if name in os.environ}
        environment |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd="/",
            env=environment,
        )  # fmt: skip
        return self._process

    def _ended(self) -> int:
        """Exit code of the child, whose end is waited for."""
        process, self._process = self._process, None
        if process is None:
            return 0
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.close()
        except OSError:
            pass
        try:
            code = process.wait(1.0)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        process.stdout.close()
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ended()
