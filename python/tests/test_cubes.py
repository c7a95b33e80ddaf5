"""Cubes are built, looked at and checked; jobs tell how far they are and can be cancelled."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path

import pytest

import nyala

CUBE = "CREATE CUBE {0} WITH (auto_refresh = off) AS SELECT kind, day, sum(amount), count(*) FROM {1} GROUP BY CUBE (kind, day)"


@pytest.fixture
def sales(connection: nyala.Connection, name: str) -> str:
    """A live table with rows, and a cube over it that is not built."""
    table = f"sales_{name}"
    connection.execute(f"CREATE LIVE TABLE {table} (id INT PRIMARY KEY, kind TEXT, day DATE, amount BIGINT)")
    rows = [{"id": n, "kind": "ab"[n % 2], "day": date(2026, 1, 1 + n % 20), "amount": n} for n in range(1000)]
    connection.load(table, rows)
    connection.execute(CUBE.format(name, table))
    return name


@pytest.fixture
def ranged(connection: nyala.Connection, name: str, tmp_path: Path) -> str:
    """A cube with a segment a month, over a file of three months."""
    connection.execute(
        f"COPY (SELECT DATE '2026-01-01' + CAST(value AS INT) AS day, value AS amount FROM generate_series(0, 89) AS g(value)) TO '{tmp_path}/d.parquet'"
    )
    connection.execute(f"CREATE EXTERNAL TABLE days_{name} STORED AS PARQUET LOCATION '{tmp_path}/'")
    statement = f"CREATE CUBE {name} PARTITION BY RANGE (day) EVERY INTERVAL '1 month' AS SELECT day, sum(amount) FROM days_{name} GROUP BY day"
    connection.execute(statement)
    return name


def test_building(connection: nyala.Connection, sales: str) -> None:
    cube = connection.cube(sales)
    assert cube.status().state == "not built"
    assert cube.status().source_rows is None
    job = cube.build()
    assert job is not None
    status = job.wait(timeout=30)
    assert (status.kind, status.state, status.cube, status.percent) == ("build", "done", f"public.{sales}", 100)
    assert status.started_at.tzinfo is not None
    found = cube.status()
    assert (found.state, found.dimensions, found.cuboids, found.source_rows) == ("ready", 2, 4, 1000)
    assert isinstance(found.built_at, datetime)
    assert cube.build() is None, "there is nothing to do"
    answered = connection.execute(f"EXPLAIN SELECT kind, sum(amount) FROM sales_{sales} GROUP BY kind").rows()[0][1]
    assert f"answered from cube `public.{sales}`" in answered


def test_looking_at_a_cube(connection: nyala.Connection, sales: str) -> None:
    cube = connection.cube(sales)
    cube.build()
    assert [(segment.state, segment.source_rows) for segment in cube.segments()] == [("ready", 1000)]
    assert sorted((cuboid.cuboid, cuboid.rows) for cuboid in cube.cuboids()) == [
        ("()", 1),
        ("(day)", 20),
        ("(kind)", 2),
        ("(kind, day)", 20),
    ]
    assert {use.cuboid for use in cube.usage()} == {"()", "(day)", "(kind)", "(kind, day)"}
    assert (sales, "ready") in [(status.cube, status.state) for status in connection.cubes()]


def test_checking(connection: nyala.Connection, sales: str) -> None:
    cube = connection.cube(sales)
    assert [finding.result for finding in cube.check() if finding.is_fault] == ["stale"]
    cube.build()
    findings = cube.check(sample=5)
    assert {"file", "answer"} <= {finding.check for finding in findings}
    assert not [finding for finding in findings if finding.is_fault]


def test_damage_is_found(tmp_path: Path, name: str) -> None:
    with nyala.Server(tmp_path / "data") as server, server.connect() as connection:
        connection.execute(
            f"COPY (SELECT value % 3 AS k, value AS v FROM generate_series(1, 99) AS g(value)) TO '{tmp_path}/t.parquet'"
        )
        connection.execute(f"CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{tmp_path}/t.parquet'")
        connection.execute("CREATE CUBE c AS SELECT k, sum(v) FROM t GROUP BY k")
        connection.cube("c").build()
        for file in (tmp_path / "data").rglob("*.parquet"):
            file.write_bytes(file.read_bytes()[:-40])
        assert "damaged" in {finding.result for finding in connection.cube("c").check() if finding.is_fault}


def test_ranges(connection: nyala.Connection, ranged: str) -> None:
    cube = connection.cube(ranged)
    cube.build(date(2026, 2, 1), date(2026, 3, 1))
    assert [s.state for s in cube.segments()].count("ready") == 1
    cube.build()
    assert [s.state for s in cube.segments()] == ["ready"] * 3
    job = cube.refresh("2026-03-01", "2026-04-01")
    assert job is not None
    assert job.status().kind == "refresh"
    cube.merge(date(2026, 1, 1), date(2026, 4, 1))
    assert [s.state for s in cube.segments()] == ["ready"]
    with pytest.raises(ValueError, match="both its start and its end"):
        cube.build(date(2026, 1, 1))
    with pytest.raises(nyala.Error):
        cube.build(date(2026, 1, 2), date(2026, 2, 1))


def test_a_build_in_the_background_tells_its_progress(connection: nyala.Connection, sales: str) -> None:
    job = connection.cube(sales).build(wait=False)
    assert job is not None
    states = [status.state for status in job.progress(timeout=30)]
    assert states[-1] == "done"
    assert set(states[:-1]) <= {"running"}
    assert job.number in [status.job for status in connection.jobs()]
    assert connection.job(job.number).status().state == "done"


def test_a_build_is_cancelled(connection: nyala.Connection, name: str) -> None:
    connection.execute(
        f"CREATE LIVE TABLE big_{name} AS SELECT value AS a, value % 1000003 AS b, value % 7 AS c FROM generate_series(1, 200000) AS g(value)"
    )
    connection.execute(
        f"CREATE CUBE {name} WITH (auto_refresh = off) AS SELECT a, b, c, count(*) FROM big_{name} GROUP BY CUBE (a, b, c)"
    )
    job = connection.cube(name).build(wait=False)
    assert job is not None
    job.cancel()
    with pytest.raises(nyala.Error, match="was cancelled") as caught:
        job.wait(timeout=60)
    assert caught.value.code == "job_cancelled"
    with pytest.raises(nyala.Error) as caught:
        job.cancel()
    assert caught.value.code == "job_ended"
    connection.execute(f"DROP CUBE {name}")
    connection.execute(f"DROP TABLE big_{name}")


@pytest.mark.parametrize("wait", [True, False])
def test_a_missing_cube_is_told(connection: nyala.Connection, wait: bool) -> None:
    with pytest.raises(nyala.Error) as caught:
        connection.cube("no_such_cube").build(wait=wait)
    assert caught.value.code == "undefined_table"
    with pytest.raises(nyala.Error, match="does not exist"):
        connection.cube("no_such_cube").status()


def test_a_missing_job_is_told(connection: nyala.Connection) -> None:
    with pytest.raises(nyala.Error) as caught:
        connection.job(10**9).status()
    assert (caught.value.code, caught.value.status) == ("not_found", 404)


def test_names_with_capitals_and_quotes(connection: nyala.Connection, sales: str) -> None:
    connection.execute(f"CREATE SCHEMA s_{sales}")
    quoted = nyala.quote_name(f"s_{sales}", 'A "cube"')
    connection.execute(CUBE.format(quoted, f"sales_{sales}"))
    cube = connection.cube(quoted)
    assert cube.build() is not None
    assert cube.status().cube == 'A "cube"'
    assert connection.cube(sales.upper()).name == sales


@pytest.mark.parametrize("bad", ["", "a.b.c", 'a"b', "a b", '"a', "a.", "a;b c"])
def test_what_is_no_name_is_told(connection: nyala.Connection, bad: str) -> None:
    with pytest.raises(ValueError, match="is not a name in SQL"):
        connection.cube(bad)


def test_recommendations(connection: nyala.Connection, name: str) -> None:
    connection.execute(
        f"CREATE LIVE TABLE {name} AS SELECT value % 10 AS kind, value AS amount FROM generate_series(1, 20000) AS g(value)"
    )
    for _ in range(3):
        connection.execute(f"SELECT kind, sum(amount) FROM {name} GROUP BY kind").rows()
    statements = [
        found.statement for found in connection.recommend(table=name, cubes=1, bytes="1 GB") if found.statement
    ]
    assert len(statements) == 1
    connection.execute(statements[0])
    assert isinstance(connection.recommend(schema="public"), list)
    with pytest.raises(ValueError, match="either a schema or a table"):
        connection.recommend()
