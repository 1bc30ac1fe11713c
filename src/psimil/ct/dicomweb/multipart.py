"""Bodies of several parts, as DICOMweb sends and takes files."""

from __future__ import annotations

import re
from hashlib import sha256

from psimil.foundations.errors import ServerFault

KIND = "application/dicom"
HEAD = 1 << 14  # bytes before the file begins, at most
BOUNDARY = re.compile(r"""[;\s]boundary="?([\w'()+,./:=?-]{1,70})"?""", re.ASCII | re.IGNORECASE)


def only_part(content_type: str, body: bytes) -> memoryview:
    """The one file that a body carries, as its only part or as it is.

    Raises
    ------
    ServerFault
        When there is no such file, more than one, or it was cut.

    Examples
    --------
    >>> bytes(only_part(*one_part(b"DICM")))
    b'DICM'
    """
    kind, found = content_type.partition(";")[0].strip().lower(), BOUNDARY.search(content_type)
    if kind == KIND and body:
        return memoryview(body)
    if kind != "multipart/related" or found is None:
        raise ServerFault("the server answers with something that is no DICOM file.")
    delimiter = b"--" + found[1].encode()
    begin = body.find(delimiter, 0, HEAD)
    start = body.find(b"\r\n\r\n", begin, HEAD) + 4
    end = body.find(b"\r\n" + delimiter, start)
    if begin < 0 or start < 4 or end < 0 or body[end + 2 + len(delimiter) :].strip() != b"--":
        raise ServerFault("the server's answer was cut, or has more parts than one.")
    return memoryview(body)[start:end]


def one_part(content: bytes) -> tuple[str, bytes]:
    """Content type and body that carry one file; the same file gives the same bytes.

    Examples
    --------
    >>> kind, body = one_part(b"DICM")
    >>> kind.startswith('multipart/related; type="application/dicom"; boundary='), b"DICM" in body
    (True, True)
    """
    boundary = sha256(content).hexdigest()  # a file does not hold its own hash
    head = f"--{boundary}\r\nContent-Type: {KIND}\r\n\r\n"
    body = head.encode() + content + f"\r\n--{boundary}--\r\n".encode()
    return f'multipart/related; type="{KIND}"; boundary={boundary}', body
