"""Tables that are read a few thousand rows at a time: CSV and parquet as data frames, npz as rows of numbers."""

from __future__ import annotations

import shutil
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from psimil.data.delimited import csv_options
from psimil.data.frames import reason
from psimil.foundations.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

MAX_RATIO = 1100  # of deflate, which numpy packs archives with
CHUNK_BYTES, MAX_ROWS = 2 << 20, 100_000
BUFFER, AT_ONCE = 1 << 16, 64 << 20  # bytes of a parquet file: read ahead, and of one whose columns are read whole


def chunk_rows(n_columns: int) -> int:
    """Rows that are read at a time.

    Examples
    --------
    >>> chunk_rows(32), chunk_rows(2_000_000)
    (8192, 1)
    """
    return max(1, min(MAX_ROWS, CHUNK_BYTES // (8 * max(1, n_columns))))


def csv_chunks(path: Path, text: str) -> Iterator[pd.DataFrame]:
    r"""The rows of a CSV file, as :func:`psimil.data.frames.read_csv` reads them, chunk by chunk.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = Path(directory) / "bags.csv"
    ...     _ = path.write_text("bag,f\n007,1.5\n")
    ...     [chunk.values.tolist() for chunk in csv_chunks(path, "bag")]
    [[['007', 1.5]]]
    """
    import pandas as pd

    with _explained(path, "CSV"):
        options = csv_options(path, text)
        options["chunksize"] = chunk_rows(1 + len(options["na_values"]))
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # rows longer than the header
            chunks = pd.read_csv(path, **options)
    with chunks:
        while True:
            with _explained(path, "CSV"), warnings.catch_warnings():
                warnings.simplefilter("error", pd.errors.ParserWarning)
                chunk = next(chunks, None)
            if chunk is None:
                return
            yield chunk


def parquet_chunks(path: Path) -> Iterator[pd.DataFrame]:
    """The rows of a parquet file, chunk by chunk; the first chunk has the columns and no rows.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = Path(directory) / "bags.parquet"
    ...     pd.DataFrame({"bag": ["a"], "f": [1.5]}).to_parquet(path)
    ...     [chunk.values.tolist() for chunk in parquet_chunks(path)]
    [[], [['a', 1.5]]]
    """
    try:
        import pyarrow.parquet as pq
    except ImportError as error:
        from psimil.foundations.extras import install_command

        raise InputError(f"reading parquet needs pyarrow. Install it with: {install_command('parquet')}") from error
    with _explained(path, "parquet"):
        # A buffer spares memory, but a page that lies about its size gets as much as it asks for.
        buffer_size = BUFFER if path.stat().st_size > AT_ONCE else 0
        file = pq.ParquetFile(path, pre_buffer=False, buffer_size=buffer_size)
        batches = file.iter_batches(chunk_rows(len(file.schema_arrow)), use_threads=False)
        first = file.schema_arrow.empty_table().to_pandas()
    yield first
    with file:
        while True:
            with _explained(path, "parquet"):
                batch = next(batches, None)
                chunk = None if batch is None else batch.to_pandas()
            if chunk is None:
                return
            if not chunk.columns.equals(first.columns):
                raise InputError(f"{path.name} cannot be read as parquet: its rows have other columns than it says.")
            yield chunk


class ArchivedRows:
    """The matrix X (N, D) of an npz archive, compressed or not, row by row.

    A matrix that is stored by columns is first copied to a temporary file.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = Path(directory) / "bags.npz"
    ...     np.savez_compressed(path, X=[[1.0, 2.0], [3.0, 4.0]])
    ...     rows = ArchivedRows(path)
    ...     rows.shape, [chunk.tolist() for chunk in rows.chunks()]
    ((2, 2), [[[1.0, 2.0], [3.0, 4.0]]])
    """

    def __init__(self, path: Path, key: str = "X") -> None:
        self.path, self._member = path, f"{key}.npy"
        with self._opened() as (_, self.shape, self._by_column, self.dtype):
            pass

    @property
    def most_bytes(self) -> int:
        """Bytes that the matrix can have at most, whatever its header says."""
        with zipfile.ZipFile(self.path) as archive:
            return min(archive.getinfo(self._member).file_size, MAX_RATIO * self.path.stat().st_size)

    def chunks(self) -> Iterator[NDArray[Any]]:
        """(n, D) rows, in the order of the file."""
        n_rows, width = self.shape
        with self._opened() as (stream, _, _, _), TemporaryFile() as spilled:
            if self._by_column:
                with _explained(self.path, "an npz archive"):
                    shutil.copyfileobj(stream, spilled)
                    spilled.flush()
                    columns = np.memmap(spilled, self.dtype, "r", shape=self.shape, order="F")
            for start in range(0, n_rows, chunk_rows(width)):
                n = min(chunk_rows(width), n_rows - start)
                if self._by_column:
                    yield np.array(columns[start : start + n])
                    continue
                with _explained(self.path, "an npz archive"):
                    chunk = np.frombuffer(stream.read(n * width * self.dtype.itemsize), self.dtype).reshape(n, width)
                yield chunk

    @contextmanager
    def _opened(self) -> Iterator[tuple[IO[bytes], tuple[int, ...], bool, np.dtype[Any]]]:
        with _explained(self.path, "an npz archive"):
            archive = zipfile.ZipFile(self.path)
        with archive:
            with _explained(self.path, "an npz archive"):
                stream = archive.open(self._member)
                version = np.lib.format.read_magic(stream)
                read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
                shape, fortran, dtype = read(stream)
            with stream:
                yield stream, shape, fortran, dtype


@contextmanager
def _explained(path: Path, kind: str) -> Iterator[None]:
    """Parsers, codecs and zip fail in many ways on a damaged or hostile file."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{path.name} cannot be read as {kind}: {reason(error, path)}.") from error
