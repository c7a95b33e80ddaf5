"""Changes come once and in order, whatever happens to the connection."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from relay import Relay

import nyala
from nyala import Change


@pytest.fixture
def table(connection: nyala.Connection, name: str) -> str:
    """A table with a row, so that it has an LSN."""
    connection.execute(f"CREATE LIVE TABLE {name} (id INT PRIMARY KEY, name TEXT)")
    connection.execute(f"INSERT INTO {name} VALUES (0, 'first')")
    return name


def version(connection: nyala.Connection, table: str) -> int:
    found = connection.execute(f"SELECT max(_version) FROM {table}").scalar()
    assert isinstance(found, int)
    return found


def brief(changes: Iterator[Change], number: int) -> list[tuple[str, object]]:
    return [(change.operation, change.row.get("id")) for change in islice(changes, number)]


def test_changes_after_an_lsn(connection: nyala.Connection, table: str) -> None:
    start = version(connection, table)
    connection.execute(f"INSERT INTO {table} VALUES (1, 'a'), (2, NULL)")
    connection.execute(f"UPDATE {table} SET name = 'b' WHERE id = 1")
    connection.execute(f"DELETE FROM {table} WHERE id = 2")
    connection.execute(f"TRUNCATE TABLE {table}")
    changes = list(islice(connection.changes(table, start), 5))
    assert [(c.operation, c.row.get("id"), c.row.get("name")) for c in changes] == [
        ("upsert", 1, "a"),
        ("upsert", 2, None),
        ("upsert", 1, "b"),
        ("delete", 2, None),
        ("truncate", None, None),
    ]
    lsns = [change.lsn for change in changes]
    assert lsns[0] == lsns[1] < lsns[2] < lsns[3] < lsns[4]


def test_a_follower_goes_on_from_where_another_stopped(connection: nyala.Connection, table: str) -> None:
    start = version(connection, table)
    for number in range(1, 6):
        connection.execute(f"INSERT INTO {table} VALUES ({number}, 'x')")
    changes = connection.changes(table, start)
    first = next(changes)
    changes.close()  # type: ignore[attr-defined]
    assert brief(connection.changes(table, first.lsn), 4) == [("upsert", n) for n in (2, 3, 4, 5)]


def test_a_broken_connection_loses_and_repeats_nothing(
    server: nyala.Server, connection: nyala.Connection, table: str
) -> None:
    with Relay(server.url) as relay, nyala.connect(relay.url) as follower:
        changes = follower.changes(table, version(connection, table))
        found = []
        for number in range(1, 21):
            connection.execute(f"INSERT INTO {table} VALUES ({number}, 'x')")
            found += brief(changes, 1)
            if number % 5 == 0:
                relay.break_all()
        assert found == [("upsert", number) for number in range(1, 21)]
        assert relay.connections >= 4


def test_a_restarted_server_is_followed_again(tmp_path: Path) -> None:
    with nyala.Server(tmp_path) as server:
        address = server.url.rpartition("/")[2]
        connection = server.connect()
        connection.execute("CREATE LIVE TABLE t (id INT PRIMARY KEY)")
        connection.execute("INSERT INTO t VALUES (1)")
        changes = connection.changes("t", 0)
        assert brief(changes, 1) == [("upsert", 1)]
    with nyala.Server(tmp_path, server={"http_listen": address}):
        connection.execute("INSERT INTO t VALUES (2)")
        assert brief(changes, 1) == [("upsert", 2)]


def test_a_server_that_stays_away_is_told(table: str) -> None:
    with nyala.Server() as server:
        connection = server.connect()
        connection.execute("CREATE LIVE TABLE t (id INT PRIMARY KEY)")
        connection.execute("INSERT INTO t VALUES (1)")
        changes = connection.changes("t", 0, retry_seconds=0.5)
        assert next(changes).row == {"id": 1}
        server.stop()
        with pytest.raises(nyala.Error) as caught:
            next(changes)
        assert caught.value.code == "unreachable"


def test_changes_that_are_gone_are_told(connection: nyala.Connection) -> None:
    with pytest.raises(nyala.Error) as caught:
        next(connection.changes("no_such_table"))
    assert caught.value.code == "undefined_table"


def test_exact_values(connection: nyala.Connection, name: str) -> None:
    connection.execute(
        f"CREATE LIVE TABLE {name} (id BIGINT PRIMARY KEY, d DECIMAL(38, 2), f DOUBLE PRECISION, t TIMESTAMP, b BYTEA)"
    )
    connection.execute(
        f"INSERT INTO {name} VALUES (9223372036854775807, 12345678901234567890123456789012.34, 0.5, TIMESTAMP '2026-01-01 00:00:00', '\\x00ff')"
    )
    change = next(connection.changes(name, 0))
    assert change.row["id"] == 2**63 - 1
    assert str(change.row["d"]) == "12345678901234567890123456789012.34"
    assert change.row["t"] == "2026-01-01T00:00:00"
    assert change.row["b"] == "00ff"
