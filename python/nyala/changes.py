"""Changes of a live table as they happen, over connections that may break."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from .door import Answer, Door, parse_json
from .errors import Error

# The server says something at least every fifteen seconds: after this silence it is gone.
_SILENCE_SECONDS = 60.0
_FIRST_WAIT_SECONDS = 0.1
_LONGEST_WAIT_SECONDS = 5.0
# What another attempt may mend.
_PASSING = {"unreachable", "broken_off", "no_answer", "shutting_down", "starting", "busy", "too_many_connections"}


@dataclass(frozen=True)
class Change:
    """What happened to a row, or to the table.

    `operation` is `upsert`, `delete` (whose row is the key alone), `truncate`, `expire` or `alter`; `lsn` is that of the statement. Values are those of JSON, in which times and bytes are texts; numbers with a point are Decimal.
    """

    operation: str
    row: dict[str, Any]
    lsn: int


def follow(door: Door, table: str, after: int | None, retry_seconds: float) -> Iterator[Change]:
    """The changes after an LSN, each once: those of a statement come when all of them have arrived."""
    position = after
    deadline = None
    while True:
        try:
            for lsn, changes in _statements(door, table, position):
                position, deadline = lsn, None
                yield from changes
        except Error as error:
            if error.code not in _PASSING:
                raise
            deadline = _wait(error, deadline, retry_seconds)


def _wait(error: Error, deadline: _Deadline | None, retry_seconds: float) -> _Deadline:
    """Waits before the next attempt, longer each time; raises when there was no connection for too long."""
    deadline = deadline or _Deadline(time.monotonic() + retry_seconds)
    if time.monotonic() + deadline.wait_seconds > deadline.at:
        raise error
    time.sleep(deadline.wait_seconds)
    deadline.wait_seconds = min(deadline.wait_seconds * 2, _LONGEST_WAIT_SECONDS)
    return deadline


@dataclass
class _Deadline:
    at: float
    wait_seconds: float = _FIRST_WAIT_SECONDS


def _statements(door: Door, table: str, after: int | None) -> Iterator[tuple[int, list[Change]]]:
    """The LSN and the changes of each statement, over one connection. The first one has no changes: it tells where the stream begins."""
    headers = {"Accept": "text/event-stream"}
    if after is not None:
        headers["Last-Event-ID"] = str(after)
    path = f"/api/v1/tables/{quote(table, safe='')}/changes"
    with door.request("GET", path, headers=headers, silence=_SILENCE_SECONDS) as answer:
        gathered: list[_Event] = []
        for event in _events(answer):
            if event.kind == "error":
                raise Error(
                    "changes_ended",
                    f"the changes of `{table}` ended: {event.data}",
                    "copy the table anew, and follow it from there",
                )
            if event.data:
                gathered.append(event)
            if event.id is not None:
                lsn = int(event.id)
                yield lsn, [Change(event.kind, parse_json(event.data), lsn) for event in gathered]
                gathered = []
    raise Error("broken_off", "the server ended the stream of changes")


@dataclass
class _Event:
    """An event of a stream, by the rules of the HTML standard ("Server-sent events", interpretation of an event stream)."""

    kind: str = "message"
    id: str | None = None
    lines: list[str] = field(default_factory=list)

    @property
    def data(self) -> str:
        return "\n".join(self.lines)

    def take(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            self.kind = value
        elif name == "id":
            self.id = value
        elif name == "data":
            self.lines.append(value)


def _events(answer: Answer) -> Iterator[_Event]:
    event = _Event()
    for line in _lines(answer):
        if line:
            event.take(line)
        else:
            yield event
            event = _Event()


def _lines(answer: Answer) -> Iterator[str]:
    rest = b""
    while piece := answer.read_some():
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield line.decode().rstrip("\r")
