"""What needs pyarrow, which is imported when it is first used."""

from __future__ import annotations

import importlib
import io
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any
from uuid import UUID

from .errors import Error

if TYPE_CHECKING:
    import pyarrow as pa

# Rows of a batch that is sent: the server takes batches of 256 MiB at most.
_BATCH_ROWS = 1 << 16
_UUID_BYTES = 16


def is_installed() -> bool:
    """Whether results come as Arrow."""
    return _find("pyarrow") is not None


def require(package: str, extra: str) -> Any:
    """An optional package."""
    found = _find(package)
    if found is None:
        raise Error("missing_package", f"the package `{package}` is not installed", f"pip install 'nyala[{extra}]'")
    return found


def _find(package: str) -> Any | None:
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        # One that is installed and broken has something to say.
        if error.name == package.partition(".")[0]:
            return None
        raise


def open_stream(body: Any) -> pa.RecordBatchReader:
    """Reads batches of an Arrow IPC stream as they come."""
    pyarrow = require("pyarrow", "arrow")
    reader: pa.RecordBatchReader = pyarrow.ipc.open_stream(pyarrow.PythonFile(body, mode="r"))
    return reader


def rows_of(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    """The rows with values of Python."""
    columns = [_values(column) for column in batch.columns]
    return zip(*columns) if columns else iter(())


def _values(column: pa.Array[Any]) -> list[Any]:
    pyarrow = require("pyarrow", "arrow")
    if column.type == pyarrow.binary(_UUID_BYTES):
        return [None if value is None else UUID(bytes=value) for value in column.to_pylist()]
    wanted = _in_microseconds(column.type)
    if wanted != column.type:
        # Python has no nanoseconds; to_pylist() would raise, or give values of pandas, as that is installed or not.
        column = column.cast(wanted, safe=False)
    try:
        return list(column.to_pylist())
    except (ValueError, OverflowError) as error:
        hint = "cast it to text in SQL, or take .arrow()"
        raise Error("out_of_range", f"a value of the result does not fit into Python's type: {error}", hint) from error


def _in_microseconds(data_type: Any) -> Any:
    """The type with microseconds in the place of nanoseconds, also within lists and structs."""
    pyarrow = require("pyarrow", "arrow")
    types = pyarrow.types
    if types.is_timestamp(data_type) and data_type.unit == "ns":
        return pyarrow.timestamp("us", data_type.tz)
    if types.is_time64(data_type) and data_type.unit == "ns":
        return pyarrow.time64("us")
    if types.is_duration(data_type) and data_type.unit == "ns":
        return pyarrow.duration("us")
    if types.is_list(data_type):
        return pyarrow.list_(_field_in_microseconds(data_type.value_field))
    if types.is_large_list(data_type):
        return pyarrow.large_list(_field_in_microseconds(data_type.value_field))
    if types.is_struct(data_type):
        return pyarrow.struct([_field_in_microseconds(data_type.field(i)) for i in range(data_type.num_fields)])
    return data_type


def _field_in_microseconds(field: Any) -> Any:
    return field.with_type(_in_microseconds(field.type))


def to_pandas(table: pa.Table, options: dict[str, Any]) -> Any:
    """A data frame in which no integer is rounded: pandas would make floats of integers with nulls."""
    pandas = require("pandas", "pandas")
    with_nulls = {column.type for column in table.columns if column.null_count}
    nullable = {
        data_type: pandas_type for data_type, pandas_type in _nullable(pandas).items() if data_type in with_nulls
    }
    return table.to_pandas(**{"types_mapper": nullable.get, **options})


def _nullable(pandas: Any) -> dict[Any, Any]:
    pyarrow = require("pyarrow", "arrow")
    names = ["Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64"]
    integers = {getattr(pyarrow, name.lower())(): getattr(pandas, f"{name}Dtype")() for name in names}
    return {**integers, pyarrow.bool_(): pandas.BooleanDtype()}


def reader_of(data: Any) -> Any:
    """A reader of the batches of a frame or table of any library; none if it is something else."""
    if _is_of_pandas(data):
        pyarrow = require("pyarrow", "pandas")
        # The index numbers rows and is no column of the table.
        return pyarrow.Table.from_pandas(data, preserve_index=False).to_reader(_BATCH_ROWS)
    if hasattr(data, "__arrow_c_stream__"):
        return require("pyarrow", "arrow").RecordBatchReader.from_stream(data)
    if hasattr(data, "__arrow_c_array__"):
        batch = require("pyarrow", "arrow").record_batch(data)
        return require("pyarrow", "arrow").RecordBatchReader.from_batches(batch.schema, [batch])
    return None


def _is_of_pandas(data: Any) -> bool:
    return type(data).__module__.partition(".")[0] == "pandas" and hasattr(data, "iloc") and hasattr(data, "columns")


def stream_of(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """The bytes of an Arrow IPC stream, a batch at a time."""
    pyarrow = require("pyarrow", "arrow")
    sink = _Sink()
    with pyarrow.ipc.new_stream(pyarrow.PythonFile(sink, mode="w"), schema) as writer:
        yield sink.take()
        for batch in batches:
            for start in range(0, batch.num_rows, _BATCH_ROWS):
                writer.write_batch(batch.slice(start, _BATCH_ROWS))
                yield sink.take()
    yield sink.take()


class _Sink(io.RawIOBase):
    """Keeps what is written until it is taken."""

    def __init__(self) -> None:
        super().__init__()
        self._pieces: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._pieces.append(bytes(data))
        return len(self._pieces[-1])

    def take(self) -> bytes:
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)
