"""Jobs: builds of cubes, how far they are, and their end."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timezone
from typing import Any

from .door import Door
from .errors import Error

_FIRST_POLL_SECONDS = 0.02
_LONGEST_POLL_SECONDS = 1.0


@dataclass(frozen=True)
class JobStatus:
    """How far a job is. `state` is `running`, `done`, `failed` or `cancelled`; None stands for what is not known."""

    job: int
    kind: str
    cube: str
    state: str
    percent: int | None
    rows_read: int
    rows_total: int | None
    cuboids_done: int
    cuboids_total: int
    bytes_written: int
    started_at_ms: int
    ended_at_ms: int | None
    remaining_ms: int | None
    retries: int
    error: str | None

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> JobStatus:
        """Reads what the server says; what this version does not know is left out."""
        known: dict[str, Any] = {field.name: document.get(field.name) for field in fields(cls)}
        return cls(**known)

    @property
    def started_at(self) -> datetime:
        """When it began."""
        return datetime.fromtimestamp(self.started_at_ms / 1000, timezone.utc)


class Job:
    """A job of the server, by its number."""

    def __init__(self, door: Door, number: int) -> None:
        self._door = door
        self.number = number

    def __repr__(self) -> str:
        return f"Job({self.number})"

    def status(self) -> JobStatus:
        """How far it is now."""
        return JobStatus.from_document(self._door.json("GET", self._path))

    def progress(self, timeout: float | None = None) -> Iterator[JobStatus]:
        """Its states until it ends, the last one included; asks more rarely the longer it takes."""
        deadline = None if timeout is None else time.monotonic() + timeout
        poll_seconds = _FIRST_POLL_SECONDS
        while True:
            status = self.status()
            yield status
            if status.state != "running":
                return
            if deadline is not None and time.monotonic() >= deadline:
                raise Error(
                    "no_answer",
                    f"job {self.number} did not end within {timeout} seconds",
                    "it goes on; wait again, or cancel it",
                )
            time.sleep(poll_seconds)
            poll_seconds = min(poll_seconds * 1.5, _LONGEST_POLL_SECONDS)

    def wait(self, timeout: float | None = None) -> JobStatus:
        """Waits for its end, and raises if it failed or was cancelled."""
        *_, status = self.progress(timeout)
        if status.state == "cancelled":
            raise Error("job_cancelled", f"job {self.number}, {status.kind} of `{status.cube}`, was cancelled")
        if status.state != "done":
            raise Error("job_failed", f"job {self.number}, {status.kind} of `{status.cube}`, failed: {status.error}")
        return status

    def cancel(self) -> None:
        """Asks it to end. It has not ended when this returns: `wait` for it."""
        self._door.json("DELETE", self._path)

    @property
    def _path(self) -> str:
        return f"/api/v1/jobs/{self.number}"


def list_jobs(door: Door) -> list[JobStatus]:
    """All jobs, newest first."""
    return [JobStatus.from_document(document) for document in door.json("GET", "/api/v1/jobs")["jobs"]]
