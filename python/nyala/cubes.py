"""Cubes as objects: build them, see what they are made of, check them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Union

from .errors import Error
from .jobs import Job, list_jobs
from .names import quote_name, split_name
from .records import records

if TYPE_CHECKING:
    from .connection import Connection

Bound = Union[int, date, datetime, str]


@dataclass(frozen=True)
class CubeStatus:
    """A line of `SHOW CUBES`. `state` is `ready`, `partial`, `stale`, `not built`, `building` or `damaged`."""

    schema: str
    cube: str
    state: str
    dimensions: int
    measures: int
    cuboids: int
    segments: int
    source_rows: int | None
    rows: int | None
    bytes: int | None
    built_at: datetime | None
    answers: bool = True


@dataclass(frozen=True)
class Segment:
    """A line of `SHOW SEGMENTS`."""

    segment: int | None
    range: str | None
    state: str
    reason: str | None
    source_rows: int | None
    cuboids: int | None
    rows: int | None
    bytes: int | None
    built_at: datetime | None


@dataclass(frozen=True)
class Cuboid:
    """A line of `SHOW CUBOIDS`."""

    cuboid: str
    segments: int | None
    rows: int | None
    bytes: int | None
    files: int | None


@dataclass(frozen=True)
class CuboidUse:
    """A line of `ANALYZE CUBE`: how often queries used a cuboid."""

    cuboid: str
    rows: int | None
    bytes: int | None
    hits: int
    last_used: datetime | None
    advice: str | None


@dataclass(frozen=True)
class Finding:
    """A line of `CHECK CUBE`. `result` is `ok`, `differs`, `stale`, `damaged`, `unreadable` or `not compared`."""

    check: str
    segment: int | None
    cuboid: str | None
    result: str
    detail: str

    @property
    def is_fault(self) -> bool:
        """Whether an answer of the cube may be wrong, or the cube does not answer."""
        return self.result not in ("ok", "not compared")


@dataclass(frozen=True)
class Recommendation:
    """A line of `RECOMMEND CUBE`. `statement` is to be run.

    It is None in lines that tell why no cube would serve, or that a cube is switched off.
    """

    statement: str | None
    queries: int | None
    share_of_time: float | None
    cuboids: int | None
    cells: int | None
    bytes: int | None
    rows_to_scan: int | None
    detail: str | None


class Cube:
    """A cube of the server, by its name in SQL. Whether it exists is asked when it is used."""

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection = connection
        self.schema, self.name = split_name(name)
        self._quoted = quote_name(self.schema, self.name)

    def __repr__(self) -> str:
        return f"Cube({self._quoted})"

    def status(self) -> CubeStatus:
        """Its state, its size, and when it was built."""
        for status in show_cubes(self._connection):
            if (status.schema, status.cube) == (self.schema, self.name):
                return status
        raise Error(
            "undefined_table", f"cube `{self.schema}.{self.name}` does not exist", "connection.cubes() lists them"
        )

    def build(self, start: Bound | None = None, end: Bound | None = None, *, wait: bool = True) -> Job | None:
        """Builds what is missing or stale, of the ranges from `start` to before `end` if they are given.

        Gives the job, or None if there was nothing to build. Without `wait` it gives the job as soon as that runs, and the job goes on
        whatever becomes of this process.
        """
        return self._run("BUILD", start, end, wait)

    def refresh(self, start: Bound | None = None, end: Bound | None = None, *, wait: bool = True) -> Job | None:
        """Builds again, whatever the state. The rest is as with `build`."""
        return self._run("REFRESH", start, end, wait)

    def merge(self, start: Bound | None = None, end: Bound | None = None, *, wait: bool = True) -> Job | None:
        """Makes one segment of neighbours. The rest is as with `build`."""
        return self._run("MERGE", start, end, wait)

    def segments(self) -> list[Segment]:
        """Its segments: ranges, their state, rows and bytes."""
        return records(self._connection.execute(f"SHOW SEGMENTS FOR {self._quoted}"), Segment)

    def cuboids(self) -> list[Cuboid]:
        """Its cuboids with their rows and bytes."""
        return records(self._connection.execute(f"SHOW CUBOIDS FOR {self._quoted}"), Cuboid)

    def usage(self) -> list[CuboidUse]:
        """How often queries used each cuboid."""
        return records(self._connection.execute(f"ANALYZE CUBE {self._quoted}"), CuboidUse)

    def check(self, sample: int | None = None) -> list[Finding]:
        """Looks at everything that could make an answer wrong, and compares so many random answers with those of the tables."""
        sampled = "" if sample is None else f" SAMPLE {sample:d}"
        return records(self._connection.execute(f"CHECK CUBE {self._quoted}{sampled}"), Finding)

    def _run(self, verb: str, start: Bound | None, end: Bound | None, wait: bool) -> Job | None:
        statement = f"{verb} CUBE {self._quoted}"
        if not wait:
            number = self._connection.execute(f"{statement} WITH (wait = off){_range(start, end)}").scalar()
            return None if number is None else Job(self._connection.door, number)
        before = max((job.job for job in list_jobs(self._connection.door)), default=0)
        self._connection.execute(f"{statement}{_range(start, end)}")
        return self._job_after(before, verb)

    def _job_after(self, before: int, verb: str) -> Job | None:
        """The job that this statement began: no two of them work on one cube."""
        for job in list_jobs(self._connection.door):
            if job.job > before and job.kind == verb.lower() and job.cube == f"{self.schema}.{self.name}":
                return Job(self._connection.door, job.job)
        return None


def show_cubes(connection: Connection) -> list[CubeStatus]:
    """Every cube, by name."""
    return records(connection.execute("SHOW CUBES"), CubeStatus)


def recommend(
    connection: Connection,
    schema: str | None,
    table: str | None,
    cubes: int | None,
    bytes: int | str | None,
) -> list[Recommendation]:
    """Cubes for queries that none answered."""
    if table is not None and schema is None:
        scope = f"TABLE {quote_name(*split_name(table))}"
    elif schema is not None and table is None:
        scope = f"SCHEMA {quote_name(split_name(schema)[1])}"
    else:
        raise ValueError("name either a schema or a table")
    options = [
        f"{name} = {_literal(value)}" for name, value in (("cubes", cubes), ("bytes", bytes)) if value is not None
    ]
    budget = f" WITH ({', '.join(options)})" if options else ""
    return records(connection.execute(f"RECOMMEND CUBE FOR {scope}{budget}"), Recommendation)


def _range(start: Bound | None, end: Bound | None) -> str:
    if start is None and end is None:
        return ""
    if start is None or end is None:
        raise ValueError("a range needs both its start and its end, which is the first value after it")
    return f" FROM {_literal(start)} TO {_literal(end)}"


def _literal(value: Bound) -> str:
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, int):
        return str(value)
    return "'" + value.replace("'", "''") + "'"
