"""Rows are loaded from what people have, once, and with what could not be read told."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

import nyala
from nyala import arrow
from nyala.loads import RowsBody, body_of

with_arrow = pytest.mark.skipif(not arrow.is_installed(), reason="pyarrow is not installed")

ROWS: list[dict[str, Any]] = [{"id": 1, "name": "Ada"}, {"id": 2, "name": None}]


@pytest.fixture
def people(connection: nyala.Connection, name: str) -> str:
    """An empty table."""
    connection.execute(f"CREATE LIVE TABLE {name} (id BIGINT PRIMARY KEY, name TEXT)")
    return name


def names(connection: nyala.Connection, table: str) -> list[tuple[Any, ...]]:
    return connection.execute(f"SELECT id, name FROM {table} ORDER BY id").rows()


def test_dictionaries(connection: nyala.Connection, people: str) -> None:
    loaded = connection.load(people, ROWS)
    assert (loaded.rows, loaded.rejected, loaded.rejects, loaded.applied_before) == (2, 0, [], False)
    assert connection.execute(f"SELECT DISTINCT _version FROM {people}").scalar() == loaded.lsn
    assert names(connection, people) == [(1, "Ada"), (2, None)]


def test_a_generator_is_read_as_it_is_sent(connection: nyala.Connection, people: str) -> None:
    loaded = connection.load(people, ({"id": n, "name": f"name {n}"} for n in range(50_000)))
    assert loaded.rows == 50_000
    assert connection.execute(f"SELECT count(*), sum(id) FROM {people}").rows() == [(50_000, sum(range(50_000)))]


def test_nothing(connection: nyala.Connection, people: str) -> None:
    assert connection.load(people, []).rows == 0
    assert connection.load(people, iter(())).rows == 0


VALUES: dict[str, Any] = {
    "a": 2**63 - 1,
    "b": Decimal("12345678901234567890123456789012.3456"),
    "c": 0.1,
    "d": date(1969, 12, 31),
    "e": datetime(2026, 1, 2, 3, 4, 5, 6),
    "f": datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=timezone.utc),
    "g": b"\x00\xff",
    "h": True,
    "i": 'ü\n"',
    "j": UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    "k": ["x", None, "y"],
    "l": None,
}
TYPES = """id INT PRIMARY KEY, a BIGINT, b DECIMAL(38, 4), c DOUBLE PRECISION, d DATE, e TIMESTAMP, f TIMESTAMPTZ, g BYTEA, h BOOLEAN, i TEXT,
    j UUID, k TEXT[], l TEXT"""


@pytest.mark.parametrize("column", VALUES)
def test_values_come_back(connection: nyala.Connection, name: str, column: str) -> None:
    connection.execute(f"CREATE LIVE TABLE {name} ({TYPES})")
    connection.load(name, [{"id": 1, column: VALUES[column]}])
    assert connection.execute(f"SELECT {column} FROM {name}").scalar() == VALUES[column]


@with_arrow
def test_values_come_back_from_arrow(connection: nyala.Connection, name: str) -> None:
    import pyarrow

    connection.execute(f"CREATE LIVE TABLE {name} ({TYPES})")
    columns = {column: pyarrow.array([value]) for column, value in VALUES.items() if column != "j"}
    uuid = pyarrow.array([bytes.fromhex("a0eebc999c0b4ef8bb6d6bb9bd380a11")], pyarrow.binary(16))
    connection.load(name, pyarrow.table({"id": [1], **columns, "j": uuid}))
    assert connection.execute(f"SELECT {', '.join(VALUES)} FROM {name}").rows() == [tuple(VALUES.values())]


@with_arrow
@pytest.mark.parametrize(
    "form",
    ["table", "batch", "reader", "batches", "generator", "tables", "pandas", "pandas_index", "polars", "dictionary"],
)
def test_frames(connection: nyala.Connection, people: str, form: str) -> None:
    import pandas
    import polars
    import pyarrow

    table = pyarrow.Table.from_pylist(ROWS)
    forms: dict[str, Any] = {
        "table": lambda: table,
        "batch": lambda: table.to_batches()[0],
        "reader": lambda: table.to_reader(),
        "batches": lambda: table.to_batches(max_chunksize=1),
        "generator": lambda: (batch for batch in table.to_batches(max_chunksize=1)),
        "tables": lambda: [table.slice(0, 1), table.slice(1)],
        "pandas": lambda: pandas.DataFrame(ROWS),
        "pandas_index": lambda: pandas.DataFrame(ROWS, index=["a", "b"]),
        "polars": lambda: polars.DataFrame(ROWS),
        "dictionary": lambda: table.set_column(1, "name", table.column("name").dictionary_encode()),
    }
    assert connection.load(people, forms[form]()).rows == 2
    assert names(connection, people) == [(1, "Ada"), (2, None)]


@pytest.mark.parametrize("ending", ["csv", "CSV", "csv.gz", "ndjson", "jsonl", "jsonl.gz"])
def test_files_of_text(connection: nyala.Connection, people: str, tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"people.{ending}"
    text = "id,name\n1,Ada\n2,\n" if "csv" in ending.lower() else "".join(json.dumps(row) + "\n" for row in ROWS)
    path.write_bytes(gzip.compress(text.encode()) if ending.endswith(".gz") else text.encode())
    assert connection.load(people, path).rows == 2
    assert names(connection, people) == [(1, "Ada"), (2, None)]
    assert connection.load(people, str(path)).rows == 2


@with_arrow
@pytest.mark.parametrize("ending", ["parquet", "arrow", "feather", "arrows"])
def test_files_of_columns(connection: nyala.Connection, people: str, tmp_path: Path, ending: str) -> None:
    import pyarrow
    from pyarrow import feather, ipc, parquet

    path = tmp_path / f"people.{ending}"
    table = pyarrow.Table.from_pylist(ROWS)
    if ending == "parquet":
        parquet.write_table(table, path)
    elif ending == "feather":
        feather.write_feather(table, str(path))
    else:
        open_writer = ipc.new_file if ending == "arrow" else ipc.new_stream
        with open_writer(str(path), table.schema) as writer:
            writer.write_table(table)
    assert connection.load(people, path).rows == 2
    assert names(connection, people) == [(1, "Ada"), (2, None)]


@with_arrow
def test_a_parquet_file_without_pyarrow(
    monkeypatch: pytest.MonkeyPatch, connection: nyala.Connection, people: str, tmp_path: Path
) -> None:
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.Table.from_pylist(ROWS), tmp_path / "people.parquet")
    monkeypatch.setattr(arrow, "is_installed", lambda: False)
    assert connection.load(people, tmp_path / "people.parquet").rows == 2


@with_arrow
def test_a_large_batch_is_sent_in_parts(connection: nyala.Connection, people: str) -> None:
    import pyarrow

    rows = 1_000_000
    table = pyarrow.table({"id": range(rows), "name": ["x" * 20] * rows})
    assert connection.load(people, table).rows == rows
    assert len(list(body_of(table).pieces)) > 10


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        ("/no/such/file.csv", FileNotFoundError, "file.csv"),
        ("rows.xlsx", ValueError, "does not tell its format"),
        (5, TypeError, "rows cannot be read from a int"),
        ({"id": 1}, TypeError, "rows cannot be read from a dict"),
        ([(1, "Ada")], TypeError, "an iterable of tuple"),
        ([{"id": {1, 2}}], TypeError, "a value is of type set"),
    ],
)
def test_what_is_no_rows_is_told(
    connection: nyala.Connection, people: str, data: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        connection.load(people, data)
    assert connection.execute("SELECT 1").scalar() == 1


def test_a_missing_table_is_told(connection: nyala.Connection) -> None:
    with pytest.raises(nyala.Error) as caught:
        connection.load("no_such_table", ROWS)
    assert caught.value.code == "undefined_table"


def test_a_missing_table_is_told_also_if_there_are_many_rows(connection: nyala.Connection) -> None:
    with pytest.raises(nyala.Error) as caught:
        connection.load("no_such_table", ({"id": n, "name": "x" * 100} for n in range(200_000)))
    assert caught.value.code == "undefined_table"


def test_a_column_that_the_table_lacks_is_told(connection: nyala.Connection, people: str) -> None:
    with pytest.raises(nyala.Error, match="nme"):
        connection.load(people, [{"id": 1, "nme": "Ada"}])


def test_a_bad_row_ends_a_load(connection: nyala.Connection, people: str) -> None:
    with pytest.raises(nyala.Error, match="line 2") as caught:
        connection.load(people, [{"id": 1}, {"id": "x"}])
    assert caught.value.status == 422


def test_bad_rows_are_left_out_if_they_may_be(connection: nyala.Connection, people: str) -> None:
    rows = [{"id": 1}, {"id": "x"}, {"id": 3}, {"id": None}]
    loaded = connection.load(people, rows, max_rejects=2)
    assert (loaded.rows, loaded.rejected) == (2, 2)
    first, second = loaded.rejects
    assert (first.line, first.column) == (2, "id")
    assert "`x`" in first.reason
    assert second.line == 4
    with pytest.raises(nyala.Error):
        connection.load(people, rows, max_rejects=1)


def test_a_load_with_a_label_is_done_once(connection: nyala.Connection, people: str) -> None:
    first = connection.load(people, ROWS, label="monday, 1 & ü")
    connection.execute(f"DELETE FROM {people}")
    second = connection.load(people, ROWS, label="monday, 1 & ü")
    assert (first.applied_before, second.applied_before) == (False, True)
    assert (second.rows, second.lsn) == (first.rows, first.lsn)
    assert names(connection, people) == []
    assert not connection.load(people, ROWS, label="tuesday").applied_before


def test_a_load_with_a_label_is_done_as_a_whole(connection: nyala.Connection, people: str) -> None:
    with pytest.raises(nyala.Error, match="no row was written"):
        connection.load(people, [{"id": n} for n in range(10_000)] + [{"id": "x"}], label="all or none")
    assert names(connection, people) == []


def test_rows_that_fail_while_they_are_sent_are_not_taken_for_all(connection: nyala.Connection, people: str) -> None:
    def failing() -> Iterator[dict[str, object]]:
        for n in range(100_000):
            yield {"id": n, "name": "x" * 100}
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError, match="the source broke"):
        connection.load(people, failing(), label="never")
    assert names(connection, people) == []
    assert not connection.load(people, ROWS, label="never").applied_before


def test_names_are_those_of_sql(connection: nyala.Connection, name: str) -> None:
    connection.execute(f"CREATE SCHEMA {name}")
    connection.execute(f'CREATE LIVE TABLE {name}."People" (id INT PRIMARY KEY)')
    assert connection.load(f'{name}."People"', [{"id": 1}]).rows == 1
    assert connection.load(nyala.quote_name(name, "People"), [{"id": 2}]).rows == 1
    with pytest.raises(nyala.Error, match="people"):
        connection.load(f"{name}.People", [{"id": 3}])


def test_bodies_say_what_they_are() -> None:
    body = body_of(ROWS)
    assert isinstance(body, RowsBody)
    assert body.headers == {"Content-Type": "application/x-ndjson"}
    assert b"".join(body.pieces) == b'{"id":1,"name":"Ada"}\n{"id":2,"name":null}\n'
