"""Results come whole, exact, and in every form; errors come as errors."""

from __future__ import annotations

import math
import os
import pickle
import resource
import signal
import threading
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

import pytest

import nyala
from nyala import arrow

with_arrow = pytest.mark.skipif(not arrow.is_installed(), reason="pyarrow is not installed")

UTC = timezone.utc
LONG = "SELECT n FROM generate_series(1, {0}000) AS a(n)"


@pytest.fixture(params=["arrow", "json"])
def either(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, connection: nyala.Connection
) -> nyala.Connection:
    """A connection with pyarrow, and one without."""
    if request.param == "json":
        monkeypatch.setattr(arrow, "is_installed", lambda: False)
    elif not arrow.is_installed():
        pytest.skip("pyarrow is not installed")
    return connection


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("CAST(18446744073709551615 AS BIGINT UNSIGNED)", 2**64 - 1),
        (
            "CAST(12345678901234567890123456789012345678 AS DECIMAL(38, 0))",
            Decimal(12345678901234567890123456789012345678),
        ),
        ("CAST('0.1' AS DECIMAL(30, 20))", Decimal("0.10000000000000000000")),
        ("CAST('-7' AS DECIMAL(10, 0))", Decimal(-7)),
        ("CAST(0.1 AS DOUBLE PRECISION)", 0.1),
        ("CAST('Infinity' AS DOUBLE PRECISION)", math.inf),
        ("CAST(5 AS DOUBLE PRECISION)", 5.0),
        ("NULL", None),
        ("CAST(NULL AS BIGINT)", None),
        ("true", True),
        ("'Grüße, \"Ä\" \\ \n'", 'Grüße, "Ä" \\ \n'),
        ("''", ""),
        ("DATE '2026-02-28'", date(2026, 2, 28)),
        ("TIME '12:34:56.789'", time(12, 34, 56, 789000)),
        ("TIMESTAMP '2026-02-28 12:34:56.123456'", datetime(2026, 2, 28, 12, 34, 56, 123456)),
        ("TIMESTAMP '1960-02-28 12:34:56.5'", datetime(1960, 2, 28, 12, 34, 56, 500000)),
        ("TIMESTAMPTZ '2026-02-28 12:34:56+02:00'", datetime(2026, 2, 28, 10, 34, 56, tzinfo=UTC)),
        ("CAST('\\x00ff41' AS BYTEA)", b"\x00\xffA"),
        ("CAST('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11' AS UUID)", UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")),
        ("ARRAY[1, NULL, 3]", [1, None, 3]),
        ("ARRAY[ARRAY[1, 2], ARRAY[3]]", [[1, 2], [3]]),
        ("ARRAY[DATE '2026-02-28', NULL]", [date(2026, 2, 28), None]),
        ("ARRAY[TIMESTAMP '2026-02-28 00:00:00.000001']", [datetime(2026, 2, 28, 0, 0, 0, 1)]),
        ("ARRAY[CAST(1.50 AS DECIMAL(5, 2))]", [Decimal("1.50")]),
        ("named_struct('a', 1, 'b', ARRAY['x'])", {"a": 1, "b": ["x"]}),
    ],
)
def test_values_are_exact(either: nyala.Connection, expression: str, expected: object) -> None:
    found = either.execute(f"SELECT {expression}").scalar()
    assert (found, type(found)) == (expected, type(expected))


def test_nan_is_a_float(either: nyala.Connection) -> None:
    assert math.isnan(either.execute("SELECT CAST('NaN' AS DOUBLE PRECISION)").scalar())


@pytest.mark.parametrize(
    ("cast", "value"),
    [
        ("BIGINT", 2**63 - 1),
        ("DECIMAL(38, 0)", Decimal(10**37 + 1)),
        ("DECIMAL(20, 5)", Decimal("123456789012345.00001")),
        ("DOUBLE PRECISION", 0.1),
        ("DOUBLE PRECISION", -math.inf),
        ("TEXT", "'; DROP TABLE x; --"),
        ("TEXT", None),
        ("BOOLEAN", False),
        ("DATE", date(1969, 12, 31)),
        ("TIME", time(1, 2, 3, 4)),
        ("TIMESTAMP", datetime(2026, 1, 2, 3, 4, 5, 6)),
        ("TIMESTAMPTZ", datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=-3, minutes=-30)))),
        ("BYTEA", b"\x00\x01\xff"),
        ("UUID", UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")),
    ],
)
def test_parameters_come_back(either: nyala.Connection, cast: str, value: object) -> None:
    assert either.execute(f"SELECT CAST($1 AS {cast})", [value]).scalar() == value


def test_numbers_of_frames_are_parameters(connection: nyala.Connection) -> None:
    numpy = pytest.importorskip("numpy")
    values = [numpy.int64(-7), numpy.uint8(7), numpy.float32(0.5), numpy.float64("nan"), numpy.bool_(True)]
    query = "SELECT $1::bigint, $2::bigint, $3::double precision, $4::double precision, $5::boolean"
    ((*first, nan, flag),) = connection.execute(query, values).rows()
    assert (first, math.isnan(nan), flag) == ([-7, 7, 0.5], True, True)
    with pytest.raises(TypeError, match=r"parameter \$1 is of type datetime64"):
        connection.execute("SELECT $1", [numpy.datetime64("2026-01-31")])
    with pytest.raises(TypeError, match=r"parameter \$1 is of type Fraction"):
        connection.execute("SELECT $1", [Fraction(1, 3)])


def test_integers_of_any_size_are_parameters(either: nyala.Connection) -> None:
    assert either.execute("SELECT CAST($1 AS DECIMAL(38, 0))", [10**37 + 1]).scalar() == Decimal(10**37 + 1)


def test_parameters_of_other_types_are_told(connection: nyala.Connection) -> None:
    with pytest.raises(TypeError, match=r"parameter \$2 is of type list"):
        connection.execute("SELECT $1, $2", [1, [2]])


def test_too_few_parameters_are_told(connection: nyala.Connection) -> None:
    with pytest.raises(nyala.Error, match="2 parameters, but 1") as caught:
        connection.execute("SELECT $1, $2", [1])
    assert (caught.value.code, caught.value.status) == ("invalid_parameter", 400)


def test_names_repeat_and_have_quotes_and_capitals(either: nyala.Connection, name: str) -> None:
    result = either.execute('SELECT 1 AS a, 2 AS a, 3 AS "A b""c"')
    assert [column.name for column in result.columns] == ["a", "a", 'A b"c']
    assert result.rows() == [(1, 2, 3)]


def test_quoted_names(connection: nyala.Connection, name: str) -> None:
    table = nyala.quote_name(f'The "{name}" Table.x')
    connection.execute(f'CREATE LIVE TABLE {table} ("Id" INT PRIMARY KEY, "a ""b""" TEXT)')
    assert connection.load(table, [{"Id": 1, 'a "b"': "x"}]).rows == 1
    assert connection.execute(f"SELECT * FROM {table}").rows() == [(1, "x")]


def test_statements_without_rows_tell_what_was_done(either: nyala.Connection, name: str) -> None:
    created = either.execute(f"CREATE LIVE TABLE {name} (id INT PRIMARY KEY)")
    assert (created.command, created.columns, created.rows()) == ("CREATE TABLE", [], [])
    assert either.execute(f"INSERT INTO {name} VALUES (1), (2)").row_count == 2
    assert either.execute(f"/* three */ INSERT INTO {name} VALUES (3), (4), (5)").row_count == 3
    assert either.execute(f"DELETE FROM {name} WHERE id = 1 RETURNING id").rows() == [(1,)]


def test_settings_hold_for_one_statement(connection: nyala.Connection) -> None:
    assert connection.execute("SHOW timezone", settings={"timezone": "Europe/Oslo"}).scalar() == "Europe/Oslo"
    assert connection.execute("SHOW timezone").scalar() == "UTC"
    with pytest.raises(nyala.Error, match=r"nyala\.use_cube"):
        connection.execute("SELECT 1", settings={"nyala.use_cube": False})


def test_rows_are_streamed_to_loops(either: nyala.Connection) -> None:
    assert [n for (n,) in either.execute("SELECT value FROM generate_series(1, 5) AS g(value)")] == [1, 2, 3, 4, 5]


def test_a_result_is_read_once(either: nyala.Connection) -> None:
    result = either.execute("SELECT 1")
    result.rows()
    with pytest.raises(nyala.Error, match="already_read"):
        result.rows()


def test_a_scalar_is_one_value(either: nyala.Connection) -> None:
    with pytest.raises(ValueError, match="0 rows and 1 columns"):
        either.execute("SELECT 1 WHERE false").scalar()


def test_values_beyond_python_are_told(either: nyala.Connection) -> None:
    with pytest.raises(nyala.Error, match="out_of_range"):
        either.execute("SELECT DATE '9999-12-31' + INTERVAL '2 days'").rows()


@pytest.mark.parametrize(
    ("sql", "code", "message", "hint"),
    [
        ("SELEC 1", "syntax_error", "SELEC", None),
        ("SELECT * FROM no_such_table", "undefined_table", "no_such_table", None),
        ("SELECT nope", "undefined_column", "nope", None),
        ("SELECT 1; SELECT 2", "invalid_request", "exactly one", "one request for each"),
        ("SELECT 1 / 0", "division_by_zero", "zero", None),
        ("CREATE LIVE TABLE x (id INT PRIMARY KEY) WITH (ttll = 5)", "invalid_definition", "ttll", "sync and ttl"),
    ],
)
def test_errors_have_code_message_and_hint(
    either: nyala.Connection, sql: str, code: str, message: str, hint: str | None
) -> None:
    with pytest.raises(nyala.Error) as caught:
        either.execute(sql)
    assert caught.value.code == code
    assert message in caught.value.message
    assert hint is None or hint in (caught.value.hint or "")
    assert f"[{code}]" in str(caught.value)


def test_errors_can_be_sent_between_processes() -> None:
    error = pickle.loads(pickle.dumps(nyala.Error("gone", "m", "h", status=410)))
    assert (error.code, error.message, error.hint, error.status) == ("gone", "m", "h", 410)


@with_arrow
def test_frames(connection: nyala.Connection) -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    sql = "SELECT * FROM (VALUES (9223372036854775807, 'a', true), (NULL, NULL, NULL)) AS t (n, s, b)"
    table = connection.execute(sql).arrow()
    assert table.to_pylist() == [{"n": 2**63 - 1, "s": "a", "b": True}, {"n": None, "s": None, "b": None}]
    frame = connection.execute(sql).pandas()
    assert frame["n"][0] == 2**63 - 1, "pandas makes floats of integers with nulls unless it is told otherwise"
    assert frame["n"].isna().tolist() == [False, True]
    assert str(connection.execute("SELECT 1 AS n").pandas()["n"].dtype) == "int32"
    assert isinstance(frame, pandas.DataFrame)
    many = connection.execute(sql).polars()
    assert isinstance(many, polars.DataFrame)
    assert many.rows() == [(2**63 - 1, "a", True), (None, None, None)]


@with_arrow
def test_a_frame_without_rows_has_columns(connection: nyala.Connection) -> None:
    sql = "SELECT 1 AS n, 'x' AS s WHERE false"
    assert connection.execute(sql).arrow().column_names == ["n", "s"]
    assert list(connection.execute(sql).pandas().columns) == ["n", "s"]
    assert connection.execute(sql).polars().columns == ["n", "s"]


def test_without_pyarrow_arrow_is_told(monkeypatch: pytest.MonkeyPatch, connection: nyala.Connection) -> None:
    monkeypatch.setattr(arrow, "_find", lambda package: None)
    for read in ("arrow", "pandas", "polars"):
        with pytest.raises(nyala.Error, match=r"missing_package(.|\n)*pip install 'nyala\["):
            getattr(connection.execute("SELECT 1"), read)()
    assert connection.execute("SELECT 1").rows() == [(1,)]


@with_arrow
def test_a_million_rows_take_little_memory(connection: nyala.Connection) -> None:
    rows = 1_000_000
    before = peak_memory_bytes()
    total, count = 0, 0
    for batch in connection.execute(f"SELECT n, repeat('x', 100) AS s FROM ({LONG.format(rows // 1000)})").batches():
        count += batch.num_rows
        total += batch.column(0)[0].as_py()
    assert count == rows
    assert peak_memory_bytes() - before < 40 << 20, "100 MB of text went by"


@with_arrow
def test_batches_come_before_the_query_has_ended(connection: nyala.Connection) -> None:
    with connection.execute(LONG.format(100_000_000)) as result:
        assert next(result.batches()).num_rows > 0
    assert connection.execute("SELECT 1").scalar() == 1


@with_arrow
def test_closing_a_result_ends_the_query(connection: nyala.Connection) -> None:
    marker = "SELECT 'closed early' AS marker"
    result = connection.execute(f"{marker}, n FROM ({LONG.format(100_000_000)})")
    running = "SELECT count(*) FROM system.queries WHERE query LIKE 'SELECT ''closed early''%'"
    assert connection.execute(running).scalar() == 1
    result.close()
    for _ in range(500):
        if connection.execute(running).scalar() == 0:
            return
    pytest.fail("the query goes on")


@with_arrow
def test_a_server_that_dies_in_the_middle_raises() -> None:
    with nyala.Server() as server, server.connect() as connection:
        batches = connection.execute(LONG.format(100_000_000)).batches()
        next(batches)
        os.kill(server.pid, signal.SIGKILL)
        with pytest.raises(nyala.Error, match="broken_off"):
            drain(batches)


@with_arrow
def test_a_query_that_fails_in_the_middle_raises(connection: nyala.Connection) -> None:
    failing = "SELECT 1 / (20000000 - n) FROM (SELECT value AS n FROM generate_series(1, 30000000) AS g(value))"
    with pytest.raises(nyala.Error) as caught:
        connection.execute(failing).arrow()
    assert caught.value.code in ("broken_off", "division_by_zero")


def test_a_query_that_is_too_slow_is_told(connection: nyala.Connection, server: nyala.Server) -> None:
    slow = f"SELECT max(n) FROM ({LONG.format(100_000_000)})"
    with pytest.raises(nyala.Error) as caught:
        connection.execute(slow, settings={"statement_timeout": "100ms"})
    assert caught.value.code == "timeout"
    with nyala.connect(server, timeout=0.2) as impatient, pytest.raises(nyala.Error, match="no_answer"):
        impatient.execute(slow)


def test_connections_are_kept_and_shared_by_threads(connection: nyala.Connection) -> None:
    found: list[Any] = []
    threads = [
        threading.Thread(target=lambda n=n: found.append(connection.execute("SELECT $1 + 0", [n]).scalar()))
        for n in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == list(range(20))
    assert 1 <= len(connection.door._idle) <= 4


def test_a_kept_connection_that_the_server_closed_is_not_used() -> None:
    with nyala.Server() as server:
        connection = server.connect()
        assert connection.execute("SELECT 1").scalar() == 1
        kept = connection.door._idle[0]
        address = server.url.rpartition("/")[2]
        server.stop()
        with nyala.Server(server={"http_listen": address}):
            assert connection.execute("SELECT 2").scalar() == 2
            assert kept not in connection.door._idle
        connection.close()


def drain(batches: Iterator[Any]) -> None:
    for _ in batches:
        pass


def peak_memory_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
