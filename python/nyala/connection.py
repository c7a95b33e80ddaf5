"""`nyala.connect`: statements, loads, cubes, jobs and changes over a server's HTTP door."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Union
from urllib.parse import quote, urlencode

from . import values
from .changes import Change, follow
from .cubes import Cube, CubeStatus, Recommendation, recommend, show_cubes
from .door import JSON, Door, parse_url, trust
from .jobs import Job, JobStatus, list_jobs
from .loads import LoadResult, Rows, body_of
from .result import Result, accepted, result_of
from .server import Server

if TYPE_CHECKING:
    from typing_extensions import Self

Setting = Union[str, int, float, bool]


def connect(
    target: str | Server,
    *,
    user: str | None = None,
    password: str | None = None,
    token: str | None = None,
    ca_file: str | None = None,
    timeout: float | None = None,
    connect_timeout: float = 10.0,
    application: str = "nyala-python",
) -> Connection:
    """Connects to `http://host:port` or `https://host:port`, or to a `Server` of this process. The port is 8090 unless it is given.

    `user` and `password` may be in the URL; they are exchanged for a token, which is renewed. `ca_file` has the authorities (PEM) that
    may vouch for the server, in the place of those of the system. `timeout` is how many seconds the server may be silent; without it
    a statement may take as long as it takes, which the setting `statement_timeout` bounds better. `application` is the name in
    `system.queries`. Nothing is sent before the first statement.
    """
    url = target.url if isinstance(target, Server) else target
    address, url_user, url_password = parse_url(url)
    door = Door(
        address,
        user=user if user is not None else url_user,
        password=password if password is not None else url_password,
        token=token,
        timeout=timeout,
        connect_timeout=connect_timeout,
        context=trust(ca_file) if address.encrypted else None,
        application=application,
    )
    return Connection(door)


class Connection:
    """A server to ask. It holds no session: settings are given with each statement. Threads may share it."""

    def __init__(self, door: Door) -> None:
        self.door = door

    def __repr__(self) -> str:
        return f"Connection({self.door.address})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes connections that are kept open. A connection that is used again opens new ones."""
        self.door.close()

    def ping(self) -> None:
        """Raises unless the server takes statements now: it starts, stops, or is not reached."""
        self.door.json("GET", "/readyz")

    def execute(
        self,
        sql: str,
        parameters: Sequence[object] | None = None,
        settings: Mapping[str, Setting] | None = None,
    ) -> Result:
        """Runs one statement. `parameters` are the values of `$1`, `$2`, …; `settings` hold for this statement alone.

        It returns when the first rows are there, and for statements without rows when they are done.
        """
        request: dict[str, object] = {"sql": sql}
        if parameters is not None:
            request["parameters"] = values.parameters(parameters)
        if settings is not None:
            request["settings"] = dict(settings)
        body = json.dumps(request, allow_nan=False).encode()
        headers = {"Content-Type": JSON, "Accept": accepted(sql)}
        return result_of(self.door.request("POST", "/api/v1/query", body=body, headers=headers))

    def load(self, table: str, rows: Rows, *, label: str | None = None, max_rejects: int = 0) -> LoadResult:
        """Writes rows into a live table, in place of those with the same keys.

        `table` is a name in SQL. `rows` are a path (`.csv`, `.ndjson`, `.jsonl`, `.parquet`, `.arrow`, `.feather`, `.arrows`; text
        and streams also with `.gz` or `.zst`), a frame of pandas or polars, anything with an Arrow stream, or an iterable of batches
        of Arrow or of dictionaries. Columns go by name; the index of a pandas frame is not loaded.

        A load with a `label` is done once, as a whole: sent again, it writes nothing. One without may be done in part when it
        fails. `max_rejects` is how many rows may be left out because they cannot be read.
        """
        options: dict[str, object] = {"max_rejects": max_rejects}
        if label is not None:
            options["label"] = label
        path = f"/api/v1/tables/{quote(table, safe='')}/rows?{urlencode(options)}"
        body = body_of(rows)
        with self.door.request("POST", path, body=body.pieces, headers=body.headers) as answer:
            return LoadResult.from_document(answer.json())

    def changes(self, table: str, after: int | None = None, *, retry_seconds: float = 60.0) -> Iterator[Change]:
        """What happens to a live table, as it happens: from now on, or after an LSN. It ends with an error, or when it is closed.

        Each change comes once. When the connection breaks it goes on where it was, unless the server stays away for `retry_seconds`.
        Changes before the first connection are not seen unless `after` is given: pass the highest `_version` of a copy of the table.
        """
        return follow(self.door, table, after, retry_seconds)

    def cube(self, name: str) -> Cube:
        """The cube of a name in SQL."""
        return Cube(self, name)

    def cubes(self) -> list[CubeStatus]:
        """Every cube with its state."""
        return show_cubes(self)

    def recommend(
        self,
        *,
        schema: str | None = None,
        table: str | None = None,
        cubes: int | None = None,
        bytes: int | str | None = None,
    ) -> list[Recommendation]:
        """Cubes that would have answered the queries of before, of a schema or a table; at most so many, and of so many bytes."""
        return recommend(self, schema, table, cubes, bytes)

    def job(self, number: int) -> Job:
        """The job of a number."""
        return Job(self.door, number)

    def jobs(self) -> list[JobStatus]:
        """All jobs, newest first."""
        return list_jobs(self.door)
