"""Tables of bags: CSV, parquet and npz, read at once and chunk by chunk."""

from __future__ import annotations

import gzip
import io
import zipfile
import zlib
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from mutator import changed_bytes
from target import MAX_BYTES, Target

from psimil.data.archives import Archive
from psimil.data.bagtable import Source
from psimil.data.chunks import csv_chunks, parquet_chunks
from psimil.data.tabular import Table
from psimil.store.tables import read_bags

KINDS = (".csv", ".csv.gz", ".parquet", ".npz")  # the first byte of an input, modulo 8, says which; 4 to 7: in chunks
WORDS = (b"bag", b"label", b"instance_label", b"\n", b",", b'"', b"\r", b"\xef\xbb\xbf", b"\xff\xfe", b"NA", b"PAR1")
WORDS += (b";", b"\t", b"1,5", b"1.234,5", b"Unnamed: 0", b"True")
WORDS += (b"bag,f\n", b"'descr': '<U4'", b"'|O'", b"'<c16'", b"'<M8[ns]'", b"'fortran_order': True", b"(0,)", b"(3, 2)")
WORDS += (b"(1000000000000, 2)", b"X.npy", b"bag_ids.npy", b"offsets.npy", b"\x93NUMPY\x02\0", b"'<f8'", b"'|b1'")
CSV = (
    b"bag,label,instance_label,f,g\n1,0,,0.5,1\n1,0,0,1e5,2\n2,1,1,-3,0\n2,1,-1,4,5\n",
    b'bag,name,f\n"a, b",x,1\n007,y,2\n',
    b"f,bag\n1,a\n2,\n",
    b"bag,f\n1,2,3\n",
    b"bag;f;g, h\n1;2,5;1\n2;1e3;2\n",
    b"f\tbag\tg\n0.5\ta\t1,5\n1\tb\t'1'000\n",
    b",bag,f\n0,a,1\n1,b,x\n",
)


def target(folder: Path) -> Target:
    """Reads a table of the kind that the first byte names."""

    def run(data: bytes) -> str:
        number = data[0] % 8 if data else 0
        path = folder / f"bags{KINDS[number % 4]}"
        path.write_bytes(data[1:])
        if number < 4:
            table = read_bags(path)
            assert len(table.feature_names) == table.bags.n_features and len(table.bags) > 0
            return f"table of {KINDS[number]}{'' if table.y is None else ' with labels'}"
        return f"{_in_chunks(path)} of {KINDS[number - 4]}"

    return Target("tables", run, seeds, change, WORDS, bombs)


def _in_chunks(path: Path) -> str:
    found: Source
    if path.suffix == ".npz":
        found = Archive(path)
    else:
        chunks = parquet_chunks if path.suffix == ".parquet" else lambda path: csv_chunks(path, "bag")
        found = Table(lambda: chunks(path), path.name)
    rows = sum(len(part.X) for part in found.rows())
    assert rows == int(np.sum(found.sizes))
    return "chunks"


@cache
def seeds() -> list[bytes]:
    """Small tables of every kind and of many types of columns."""
    found = [bytes([kind]) + text for text in CSV for kind in (0, 4)]
    found += [bytes([kind]) + gzip.compress(CSV[0], mtime=0) for kind in (1, 5)]
    found += [bytes([kind]) + _parquet(columns) for columns in _columns() for kind in (2, 6)]
    matrix, ids = np.arange(6.0).reshape(3, 2), np.array([1, 1, 2])
    archives: list[dict[str, Any]] = [
        {"X": matrix, "bag_ids": ids, "y": np.array([0, 1]), "feature_names": np.array(["a", "b"])},
        {
            "X": matrix.astype(np.float32),
            "offsets": np.array([0, 1, 3]),
            "ids": np.array(["a", "b"]),
            "y_instances": ids - 1,
        },
        {"X": np.asfortranarray(matrix), "bag_ids": np.array(["a", "b", "a"])},
        {"X": ids.astype(">i4")[:, None], "bag_ids": ids.astype(float)},
    ]
    return found + [bytes([kind]) + _npz(arrays) for arrays in archives for kind in (3, 7)]


@cache
def _columns() -> list[dict[str, Any]]:
    """Columns of parquet files: ids and features of many types."""
    numbers = pa.array([0.5, 1.0, 2.0])
    ids: list[Any] = [["a", "b", "a"], [1, 2, None], [[1], [2], []], [{"x": 1}] * 3, [b"a", b"\xff", b"c"]]
    others = [pa.array([1, 2, 3], pa.timestamp("ns")), pa.array([1, 2, 3], pa.decimal128(5, 2)), pa.nulls(3)]
    others += [
        pa.array(["a", "b", "a"]).dictionary_encode(),
        pa.array([True, False, None]),
        pa.array([1, 2, 3], pa.int8()),
    ]
    found: list[dict[str, Any]] = [{"bag": pa.array(each), "f": numbers} for each in ids]
    found += [{"bag": other, "f": numbers} for other in others]
    found += [{"bag": pa.array([1, 1, 2]), "label": other, "f": other, "g": numbers} for other in others]
    return found


def _parquet(columns: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    pq.write_table(pa.table(columns), stream, compression="none", store_schema=True)
    return stream.getvalue()


def _npz(arrays: dict[str, Any]) -> bytes:
    members = {}
    for name, array in arrays.items():
        stream = io.BytesIO()
        np.lib.format.write_array(stream, np.asanyarray(array))
        members[f"{name}.npy"] = stream.getvalue()
    return _zipped(members)


def _zipped(members: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return stream.getvalue()


def change(data: bytes, rng: Random) -> bytes:
    """Another table; what is packed is unpacked first, so that it can be unpacked again."""
    kind, content = data[:1] or b"\0", data[1:]
    if not rng.randrange(30):
        kind = bytes([rng.randrange(8)])
    if rng.randrange(4):
        content = _inside(kind[0] % 4, content, rng) or content
    else:
        content = changed_bytes(content, rng, WORDS)
    return (kind + content)[:MAX_BYTES]


def _inside(kind: int, content: bytes, rng: Random) -> bytes | None:
    try:
        if kind == 1:
            inner = zlib.decompressobj(31).decompress(content, MAX_BYTES)
            return gzip.compress(changed_bytes(inner, rng, WORDS), 1, mtime=0)
        if kind == 3:
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                members = {
                    item.filename: archive.read(item) for item in archive.infolist() if item.file_size < MAX_BYTES
                }
            name = rng.choice(sorted(members))
            if rng.randrange(6):
                members[name] = changed_bytes(members[name], rng, WORDS, rng.choice(list(members.values())))
            else:
                members[rng.choice(("X.npy", "bag_ids.npy", "offsets.npy", "y.npy", "ids.npy"))] = members.pop(name)
            return _zipped(members)
    except Exception:  # zipfile and zlib fail in many ways on what was changed before
        return None
    if kind == 2 and not rng.randrange(4):
        return _parquet(dict(list(rng.choice(_columns()).items())[: rng.choice((1, 2, 3))]))
    return changed_bytes(content, rng, WORDS)


def bombs() -> dict[str, bytes]:
    """Tables that unpack to much, or say that they do."""
    header = b"bag," + b",".join(b"f%d" % n for n in range(4_000)) + b"\n"
    huge = np.lib.format.magic(1, 0) + b"v\0{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 2), }"
    npz = _zipped({"X.npy": huge.ljust(128) + bytes(64), "bag_ids.npy": huge.replace(b", 2)", b",)").ljust(128)})
    packed = gzip.compress(b"bag,f\n" + b"1,1\n" * 1_000_000, 9, mtime=0)
    frame = io.BytesIO()
    pd.DataFrame({"bag": np.zeros(1_000_000, np.int64), "f": np.zeros(1_000_000)}).to_parquet(frame)
    return {
        "wide csv": b"\0" + header + b"1" * 4_001,
        "npz that says it is large": b"\3" + npz,
        "npz that says it is large, in chunks": b"\7" + npz,
        "packed csv, in chunks": b"\5" + packed,
        "packed parquet, in chunks": b"\6" + frame.getvalue(),
        "long quote": b'\0bag,f\n"' + b"1," * 500_000,
    }
