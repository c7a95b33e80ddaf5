"""The result of a statement: read once, as Arrow, as a frame, or as rows of Python."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import arrow, values
from .door import JSON, Answer
from .errors import Error

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
    from typing_extensions import Self

    Batch = pyarrow.RecordBatch

ARROW = "application/vnd.apache.arrow.stream"

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Column:
    """A column of a result. `type` is Arrow's name of the type, or SQL's without pyarrow."""

    name: str
    type: str


class Result:
    """What a statement gave. It is read once, by one of its methods, and closed by that or by `with`.

    Closing a result that was not read to its end ends the query.
    """

    columns: list[Column]
    command: str | None
    row_count: int | None

    def __init__(self, columns: list[Column], command: str | None, row_count: int | None) -> None:
        self.columns = columns
        # What was done, such as `CREATE CUBE`, for statements without rows.
        self.command = command
        # Rows of the result, or rows that a statement wrote. None where only reading them would tell.
        self.row_count = row_count
        self._is_read = False

    def batches(self) -> Iterator[Batch]:
        """Batches of Arrow as they come, so that the whole result is never in memory."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[Row]:
        """Rows as they come; without pyarrow all of them are in memory first."""
        raise NotImplementedError

    def close(self) -> None:
        """Gives up what was not read."""
        raise NotImplementedError

    def rows(self) -> list[Row]:
        """All rows, with values of Python: int, float, Decimal, str, bool, bytes, date, time, datetime, UUID, list, dict.

        Times are cut to microseconds, because Python has no shorter ones; `.arrow()` has them whole.
        """
        return list(self)

    def scalar(self) -> Any:
        """The value of a result of one row and one column."""
        rows = self.rows()
        if len(rows) != 1 or len(self.columns) != 1:
            raise ValueError(f"the result has {len(rows)} rows and {len(self.columns)} columns, not one of each")
        return rows[0][0]

    def arrow(self) -> pyarrow.Table:
        """All rows as a table of Arrow."""
        raise NotImplementedError

    def pandas(self, **options: Any) -> pandas.DataFrame:
        """All rows as a frame of pandas. `options` are those of `pyarrow.Table.to_pandas`."""
        arrow.require("pandas", "pandas")
        frame: pandas.DataFrame = arrow.to_pandas(self.arrow(), options)
        return frame

    def polars(self) -> polars.DataFrame:
        """All rows as a frame of polars."""
        frame: polars.DataFrame = arrow.require("polars", "polars").from_arrow(self.arrow())
        return frame

    def _begin(self) -> None:
        if self._is_read:
            raise Error("already_read", "this result was read already, or closed", "keep what .rows() or .arrow() gave")
        self._is_read = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ArrowResult(Result):
    """A result that comes as a stream of Arrow."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        try:
            self._reader = arrow.open_stream(answer)
        except BaseException:
            answer.close()
            raise
        self._schema = self._reader.schema
        changed = answer.header("x-nyala-rows-affected")
        columns = [Column(field.name, str(field.type)) for field in self._schema]
        super().__init__(columns, None, int(changed) if changed else None)
        if not self.columns:
            self._end()

    def batches(self) -> Iterator[Batch]:
        self._begin()
        return self._batches()

    def _batches(self) -> Iterator[Batch]:
        with self._answer:
            if self.columns:
                yield from self._reader
            self._end()

    def _end(self) -> None:
        """Reads the end of the answer. Arrow takes a stream that breaks off between two batches for a whole one; HTTP does not."""
        while self._answer.read_some():
            pass

    def __iter__(self) -> Iterator[Row]:
        for batch in self.batches():
            yield from arrow.rows_of(batch)

    def arrow(self) -> pyarrow.Table:
        table: pyarrow.Table = arrow.require("pyarrow", "arrow").Table.from_batches(self.batches(), self._schema)
        return table

    def close(self) -> None:
        self._is_read = True
        self._answer.close()


class JsonResult(Result):
    """A result that came as one JSON document."""

    def __init__(self, answer: Answer) -> None:
        with answer:
            document = answer.json()
        columns = [Column(column["name"], column["type"]) for column in document["columns"]]
        super().__init__(columns, document.get("command"), document["row_count"])
        self._rows = document["rows"]

    def __iter__(self) -> Iterator[Row]:
        self._begin()
        rows, self._rows = self._rows, []
        return iter(values.rows([column.type for column in self.columns], rows))

    def batches(self) -> Iterator[Batch]:
        return iter(self.arrow().to_batches())

    def arrow(self) -> pyarrow.Table:
        table: pyarrow.Table = arrow.require("pyarrow", "arrow").table({})
        self._begin()
        if self.columns:
            raise Error(
                "already_read", "this result came without Arrow", "run the statement again: pyarrow is installed now"
            )
        return table

    def close(self) -> None:
        self._is_read = True
        self._rows = []


def accepted(sql: str) -> str:
    """The format to ask for. An answer in Arrow has no place for what a statement without rows has done, one in JSON has."""
    if not arrow.is_installed():
        return JSON
    words = sql.lower().split(None, 1)
    writes = bool(words) and words[0] in _WRITING and "returning" not in sql.lower()
    return JSON if writes else ARROW


_WRITING = {"insert", "update", "delete", "truncate", "copy", "create", "alter", "drop", "build", "refresh", "merge"}


def result_of(answer: Answer) -> Result:
    """Reads the beginning of an answer, which has the columns."""
    media_type = answer.header("content-type").partition(";")[0]
    return ArrowResult(answer) if media_type == ARROW else JsonResult(answer)
