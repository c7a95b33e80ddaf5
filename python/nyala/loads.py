"""Bodies for loading rows: what there is of data in Python, in a format that the server reads."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Union

from . import arrow, values
from .result import ARROW

_PIECE_BYTES = 1 << 16

_FILES = {
    ".csv": "text/csv",
    ".jsonl": "application/x-ndjson",
    ".ndjson": "application/x-ndjson",
    ".parquet": "application/vnd.apache.parquet",
    ".arrows": ARROW,
}
_COMPRESSED = {".gz": "gzip", ".zst": "zstd"}
# Files of Arrow that are no streams: their batches are sent as one.
_ARROW_FILES = {".arrow", ".feather"}


@dataclass(frozen=True)
class Reject:
    """A row that could not be read: where it begins, counted from 1, the column if it is one, and why."""

    line: int
    column: str | None
    reason: str


@dataclass(frozen=True)
class LoadResult:
    """What a load did. `rejects` are the first of the rejected rows, `lsn` is that of its last statement."""

    rows: int
    rejected: int
    rejects: list[Reject]
    lsn: int | None
    # Whether an earlier load of the same label wrote these rows, so that this one wrote none.
    applied_before: bool

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> LoadResult:
        """Reads the answer of the server."""
        rejects = [Reject(reject["line"], reject.get("column"), reject["reason"]) for reject in document["rejects"]]
        return cls(document["rows"], document["rejected"], rejects, document["lsn"], document["applied_before"])


@dataclass(frozen=True)
class RowsBody:
    """Bytes with the headers that tell what they are."""

    headers: dict[str, str]
    pieces: Iterable[bytes]


def body_of(data: Any) -> RowsBody:
    """The rows of a path, a frame, a table, a reader of batches, or an iterable of batches or dictionaries."""
    if isinstance(data, (str, os.PathLike)):
        return _of_file(Path(data))
    reader = arrow.reader_of(data)
    if reader is not None:
        return _of_batches(reader.schema, reader)
    if isinstance(data, (Mapping, bytes)) or not isinstance(data, Iterable):
        raise TypeError(f"rows cannot be read from a {type(data).__name__}: {_ACCEPTED}")
    return _of_iterable(iter(data))


_ACCEPTED = "give a path, a frame, a table of Arrow, or an iterable of batches or of dictionaries"


def _of_file(path: Path) -> RowsBody:
    ending, encoding = path.suffix.lower(), _COMPRESSED.get(path.suffix.lower())
    if encoding is not None:
        ending = Path(path.stem).suffix.lower()
    if encoding is None and ending in _ARROW_FILES:
        file = arrow.require("pyarrow", "arrow").ipc.open_file(str(path))
        return _of_batches(file.schema, (file.get_batch(at) for at in range(file.num_record_batches)))
    if encoding is None and ending == ".parquet" and arrow.is_installed():
        # As a file it could not be larger than one body of the server.
        parquet = arrow.require("pyarrow.parquet", "arrow").ParquetFile(str(path))
        return _of_batches(parquet.schema_arrow, parquet.iter_batches())
    if ending not in _FILES:
        known = ", ".join([*_FILES, *sorted(_ARROW_FILES)])
        raise ValueError(
            f"the name of `{path}` does not tell its format: known are {known}, all but the last two also with .gz or .zst"
        )
    headers = {"Content-Type": _FILES[ending]}
    if encoding is not None:
        headers["Content-Encoding"] = encoding
    # Opened here, so that a file that is missing is told before anything is sent.
    return RowsBody(headers, _pieces(path.open("rb")))


def _pieces(file: Any) -> Iterator[bytes]:
    with file:
        while piece := file.read(_PIECE_BYTES):
            yield piece


def _of_batches(schema: Any, batches: Iterable[Any]) -> RowsBody:
    return RowsBody({"Content-Type": ARROW}, arrow.stream_of(schema, batches))


def _of_iterable(items: Iterator[Any]) -> RowsBody:
    first = next(items, None)
    if first is None:
        return RowsBody({"Content-Type": "application/x-ndjson"}, ())
    everything = chain([first], items)
    if isinstance(first, Mapping):
        return RowsBody({"Content-Type": "application/x-ndjson"}, _lines(everything))
    reader = arrow.reader_of(first)
    if reader is None:
        raise TypeError(f"rows cannot be read from an iterable of {type(first).__name__}: {_ACCEPTED}")
    return _of_batches(reader.schema, chain.from_iterable(map(_batches_of, everything)))


def _batches_of(item: Any) -> Any:
    reader = arrow.reader_of(item)
    if reader is None:
        raise TypeError(f"a {type(item).__name__} is among batches of Arrow")
    return reader


def _lines(rows: Iterable[Mapping[str, object]]) -> Iterator[bytes]:
    gathered: list[str] = []
    size = 0
    for row in rows:
        gathered.append(values.row_text(row))
        size += len(gathered[-1])
        if size >= _PIECE_BYTES:
            yield ("\n".join(gathered) + "\n").encode()
            gathered, size = [], 0
    if gathered:
        yield ("\n".join(gathered) + "\n").encode()


Rows = Union[str, "os.PathLike[str]", Iterable[Mapping[str, object]], Any]
