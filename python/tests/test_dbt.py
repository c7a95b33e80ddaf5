"""The macros for dbt, run by dbt itself on a copy of the example."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import nyala

DBT = os.environ.get("NYALA_DBT")
PACKAGE = Path(__file__).parents[1] / "dbt"
PATIENCE_SECONDS = 300

pytestmark = pytest.mark.skipif(DBT is None, reason="NYALA_DBT names no program dbt with dbt-postgres")


class Project:
    """A copy of the example, and a server of its own."""

    def __init__(self, folder: Path, server: nyala.Server) -> None:
        self.folder = folder / "dbt" / "example"
        self.connection = server.connect()
        address = urlsplit(server.postgres_url)
        self._environment = {
            **os.environ,
            "DBT_HOST": str(address.hostname),
            "DBT_PORT": str(address.port),
            "DO_NOT_TRACK": "1",
        }

    def dbt(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(DBT), "--no-use-colors", *arguments, "--profiles-dir", "."]
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )

    def succeeds(self, *arguments: str) -> str:
        finished = self.dbt(*arguments)
        assert finished.returncode == 0, finished.stdout + finished.stderr
        return finished.stdout

    def fails(self, *arguments: str) -> str:
        finished = self.dbt(*arguments)
        assert finished.returncode != 0, finished.stdout
        return finished.stdout

    def change(self, file: str, before: str, after: str) -> None:
        path = self.folder / "models" / file
        text = path.read_text()
        assert before in text
        path.write_text(text.replace(before, after))

    def states(self, cube: str) -> list[str]:
        return [segment.state for segment in self.connection.cube(f"shop.{cube}").segments()]

    def jobs(self) -> list[tuple[str, str]]:
        return [(job.kind, job.cube) for job in reversed(self.connection.jobs())]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    folder = tmp_path_factory.mktemp("project")
    shutil.copytree(PACKAGE, folder / "dbt")
    files = folder / "visits"
    files.mkdir()
    with nyala.Server(cubes={"check_files_ms": 100}) as server:
        project = Project(folder, server)
        rows = "SELECT DATE '2026-01-01' + CAST(value AS INT) AS day, value AS amount FROM generate_series(0, 89) AS g(value)"
        project.connection.execute(f"COPY ({rows}) TO '{files}/visits.parquet'")
        project.connection.execute(f"CREATE EXTERNAL TABLE visits STORED AS PARQUET LOCATION '{files}/'")
        project.succeeds("deps")
        yield project


def test_models_that_are_cubes(project: Project) -> None:
    """One test, because dbt takes seconds to start and each step needs those before it."""
    # A range alone is built, and then the rest.
    project.succeeds("build", "--vars", "{from: '2026-02-01', to: '2026-03-01'}", "--exclude", "resource_type:test")
    assert project.states("takings") == ["ready"]
    assert sorted(project.states("monthly")).count("ready") == 1
    assert sorted(project.jobs()) == [("build", "shop.monthly"), ("build", "shop.takings")]
    project.succeeds("run")
    assert project.states("monthly") == ["ready"] * 3
    explained = project.connection.execute("EXPLAIN SELECT kind, sum(amount) FROM shop.sales GROUP BY kind").rows()[0][
        1
    ]
    assert "answered from cube `shop.takings`" in explained
    project.succeeds("test")

    # Nothing is missing, so nothing is built; all is built again when that is asked for.
    jobs = len(project.jobs())
    project.succeeds("run")
    assert len(project.jobs()) == jobs
    project.succeeds("run", "--full-refresh")
    assert [kind for kind, _ in project.jobs()[jobs:]] == ["refresh", "refresh"]

    # Options are changed in the cube that is there.
    jobs = len(project.jobs())
    project.change("monthly.sql", "materialized='cube',", "materialized='cube', options={'retention': '31 days'},")
    project.succeeds("run")
    assert len(project.states("monthly")) < 3
    project.change("monthly.sql", "options={'retention': '31 days'},", "")
    project.succeeds("run")
    assert project.states("monthly") == ["ready"] * 3

    # A changed text is refused, or changes the cube that is there, or makes another one.
    project.change("takings.sql", "count(*)", "count(*), max(amount)")
    project.change("takings.sql", "materialized='cube',", "materialized='cube', on_change='fail',")
    assert "has changed: say how with `alter`" in project.fails("run", "-s", "takings")
    project.change("takings.sql", "on_change='fail',", "alter=['ADD MEASURE max(amount)'],")
    project.succeeds("run", "-s", "takings")
    assert project.connection.cube("shop.takings").status().measures == 3
    project.change("takings.sql", "alter=['ADD MEASURE max(amount)'],", "")
    project.change("takings.sql", "GROUP BY CUBE (kind, day)", "GROUP BY kind, day")
    project.succeeds("run", "-s", "takings")
    assert project.connection.cube("shop.takings").status().cuboids == 1
    project.succeeds("test")
    # A mistake leaves the cube as it is.
    project.change("takings.sql", "sum(amount)", "sum(nothing)")
    assert "nothing" in project.fails("run", "-s", "takings")
    assert [cube.cube for cube in project.connection.cubes()] == ["monthly", "takings"]
    assert project.states("takings") == ["ready"]
    project.change("takings.sql", "sum(nothing)", "sum(amount)")

    # The test fails when rows change that the cube was built from. Rows that are only added do not make it wrong: answers add them.
    project.connection.execute("INSERT INTO shop.sales VALUES (5, 'tea', DATE '2026-02-02', 280)")
    project.succeeds("test", "-s", "takings")
    project.connection.execute("UPDATE shop.sales SET amount = 999 WHERE id = 1")
    assert "FAIL" in project.fails("test", "-s", "takings")
    project.succeeds("run", "-s", "takings")
    project.succeeds("test", "-s", "takings")

    # Half a range, and a cube that somebody else made.
    assert "needs both `build_from` and `build_to`" in project.fails(
        "run", "-s", "monthly", "--vars", "{from: '2026-02-01'}"
    )
    project.connection.execute("DELETE FROM shop.nyala_cubes WHERE cube = 'takings'")
    assert "was not made by dbt" in project.fails("run", "-s", "takings")
    project.succeeds("docs", "generate")
