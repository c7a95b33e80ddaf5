"""Answers that are not whole, or not of Nyala, raise; whatever a server does, nothing is taken for rows that is not."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import nyala

OK = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
DOCUMENT = '{"columns":[{"name":"n","type":"bigint","nullable":false}],"rows":[[1]],"row_count":1,"elapsed_ms":1}'


@contextmanager
def answering(*answers: str) -> Iterator[nyala.Connection]:
    """A connection to a server that gives these answers, each on a connection of its own, and closes it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_answer, args=(listener, answers), daemon=True)
        thread.start()
        with nyala.connect(f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=10) as connection:
            yield connection
        thread.join(10)


def _answer(listener: socket.socket, answers: tuple[str, ...]) -> None:
    for answer in answers:
        client, _ = listener.accept()
        with client:
            client.recv(1 << 16)
            client.sendall(answer.encode())


def test_a_whole_answer() -> None:
    with answering(f"{OK}content-length: {len(DOCUMENT)}\r\n\r\n{DOCUMENT}") as connection:
        assert connection.execute("INSERT").rows() == [(1,)]


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "HTTP/1.1 200",
        f"{OK}content-length: {len(DOCUMENT) + 1}\r\n\r\n{DOCUMENT}",
        f"{OK}content-length: 500\r\n\r\n",
        f"{OK}transfer-encoding: chunked\r\n\r\n{len(DOCUMENT):x}\r\n{DOCUMENT}\r\n",
        f"{OK}transfer-encoding: chunked\r\n\r\n",
        f"{OK}transfer-encoding: chunked\r\n\r\nxyz\r\n{DOCUMENT}\r\n0\r\n\r\n",
    ],
    ids=["nothing", "half a head", "one byte less", "no body", "no last chunk", "no chunk", "no length"],
)
def test_what_breaks_off_raises(answer: str) -> None:
    with answering(answer) as connection, pytest.raises(nyala.Error) as caught:
        connection.execute("INSERT")
    assert caught.value.code == "broken_off"
    assert caught.value.hint


@pytest.mark.parametrize(
    "answer",
    [
        f"{OK}content-length: 6\r\n\r\n<html>",
        "HTTP/1.1 404 Not Found\r\ncontent-length: 6\r\n\r\n<html>",
        "HTTP/1.1 500 Oh\r\ncontent-length: 2\r\n\r\n{}",
        "HTTP/1.1 302 Found\r\nlocation: http://elsewhere/\r\ncontent-length: 0\r\n\r\n",
    ],
)
def test_what_is_not_nyala_is_told(answer: str) -> None:
    with answering(answer) as connection, pytest.raises(nyala.Error) as caught:
        connection.execute("INSERT")
    assert caught.value.code == "invalid_answer"


def test_an_answer_before_all_rows_were_sent() -> None:
    error = '{"error":{"code":"undefined_table","message":"no"}}'
    answer = f"HTTP/1.1 400 Bad\r\ncontent-length: {len(error)}\r\n\r\n{error}"
    with answering(answer) as connection, pytest.raises(nyala.Error) as caught:
        connection.load("t", ({"n": n} for n in range(1_000_000)))
    assert caught.value.code in ("undefined_table", "broken_off"), "the answer may be lost with the connection"


def test_changes_are_read_by_the_rules_of_event_streams() -> None:
    head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 1000\r\n\r\n"
    events = 'id: 7\n\n: a comment\n\nevent:upsert\ndata:{"n":\ndata: 1}\n\nevent: delete\r\ndata: {"n":2}\r\nid: 8\r\n\r\nevent: upsert\ndata: {"n":9}\n\n'
    with answering(head + events) as connection:
        changes = connection.changes("t", retry_seconds=0)
        assert [next(changes), next(changes)] == [
            nyala.Change("upsert", {"n": 1}, 8),
            nyala.Change("delete", {"n": 2}, 8),
        ]
        with pytest.raises(nyala.Error, match="broken_off"):
            next(changes)


def test_an_error_among_changes_is_told() -> None:
    events = "id: 7\n\nevent: error\ndata: the table is gone\n\n"
    head = f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {len(events)}\r\n\r\n"
    with answering(head + events) as connection, pytest.raises(nyala.Error, match="the table is gone") as caught:
        next(connection.changes("t"))
    assert caught.value.code == "changes_ended"
