"""HTTP to one server: connections that are kept, credentials, and bodies that are whole or raise.

It knows requests and answers, and nothing of SQL, tables or formats.
"""

from __future__ import annotations

import base64
import http.client
import json
import select
import socket
import ssl
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Union
from urllib.parse import SplitResult, unquote, urlsplit

from .errors import Error

if TYPE_CHECKING:
    from typing_extensions import Self

Body = Union[bytes, Iterable[bytes], None]

JSON = "application/json"
DEFAULT_PORT = 8090
# Connections that are kept while nobody uses them.
_IDLE_CONNECTIONS = 4
# Part of a token's life after which another one is asked for.
_TOKEN_USED = 0.8
_KEEPALIVE_SECONDS = 30


@dataclass(frozen=True)
class Address:
    """Where a server is."""

    host: str
    port: int
    encrypted: bool

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.encrypted else 'http'}://{host}:{self.port}"


def parse_url(url: str) -> tuple[Address, str | None, str | None]:
    """Address, user and password of `http://user:password@host:port`."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(
            f"`{_without_password(url)}` is no address of a server: write http://host:port or https://host:port"
        )
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise ValueError(
            f"`{_without_password(url)}` has something after the port: write http://host:port or https://host:port"
        )
    encrypted = parts.scheme == "https"
    user = unquote(parts.username) if parts.username else None
    password = unquote(parts.password) if parts.password is not None else None
    return Address(parts.hostname, _port(parts), encrypted), user, password


def _port(parts: SplitResult) -> int:
    try:
        return parts.port or DEFAULT_PORT
    except ValueError:
        # The error would repeat what stands there: the password, in a URL of which the host was forgotten.
        message = "what stands after the host is no port: write http://host:port or https://host:port"
        raise ValueError(message) from None


def _without_password(url: str) -> str:
    before, at, after = url.rpartition("@")
    return f"{before.partition('://')[0]}://…@{after}" if at else url


class Door:
    """Sends requests to one server. Several threads may use it at once; each request has a connection of its own."""

    def __init__(
        self,
        address: Address,
        *,
        user: str | None,
        password: str | None,
        token: str | None,
        timeout: float | None,
        connect_timeout: float,
        context: ssl.SSLContext | None,
        application: str,
    ) -> None:
        # First, because a door that could not be made is closed too.
        self._idle: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()
        self.address = address
        self._login = _Login(user, password, token)
        self._timeout = timeout
        self._connect_timeout = connect_timeout
        self._context = context
        self._application = application

    def json(self, method: str, path: str) -> Any:
        """The document that a small request without a body is answered with."""
        with self.request(method, path) as answer:
            return answer.json()

    def request(
        self,
        method: str,
        path: str,
        *,
        body: Body = None,
        headers: Mapping[str, str] | None = None,
        silence: float | None = None,
    ) -> Answer:
        """Sends a request and returns its answer, whose status says that it succeeded; others are raised.

        `silence` takes the place of the timeout for this request.
        """
        answer = self._send(method, path, body, headers or {}, silence)
        # A token ends with a restart of the server.
        if answer.status == 401 and self._login.forget_token() and not _is_sent_once(body):
            answer.close()
            answer = self._send(method, path, body, headers or {}, silence)
        if answer.status >= 300:
            with answer:
                raise answer.error()
        return answer

    def close(self) -> None:
        """Closes the connections that nobody uses. Answers that are being read have their own."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def __del__(self) -> None:
        self.close()

    def _send(self, method: str, path: str, body: Body, headers: Mapping[str, str], silence: float | None) -> Answer:
        if _is_sent_once(body):
            # A token may have ended, by a restart of the server for instance, and the request could not be repeated with another.
            return self._exchange(
                method, path, body, {**(self._login.proof() or self._login.header()), **headers}, silence
            )
        if self._login.wants_token():
            self._fetch_token()
        return self._exchange(method, path, body, {**self._login.header(), **headers}, silence)

    def _fetch_token(self) -> None:
        answer = self._exchange("POST", "/api/v1/token", b"", self._login.proof(), None)
        with answer:
            if answer.status == 200:
                document = answer.json()
                self._login.keep_token(document["token"], document["expires_in"])
                return
            error = answer.error()
        if error.code != "no_authentication":
            raise error
        self._login.do_without_token()

    def _exchange(
        self, method: str, path: str, body: Body, headers: Mapping[str, str], silence: float | None
    ) -> Answer:
        connection = self._take()
        try:
            if connection.sock is None:
                self._connect(connection)
            connection.sock.settimeout(self._timeout if silence is None else silence)
            response = self._answer_of(connection, method, path, body, headers)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise self._failure(error) from error
        except BaseException:
            # What made the body failed: the server must not take what was sent for all of it.
            connection.close()
            raise
        return Answer(self, connection, response)

    def _answer_of(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: Body, headers: Mapping[str, str]
    ) -> http.client.HTTPResponse:
        headers = {"User-Agent": self._application, **headers}
        chunked = _is_sent_once(body)
        if chunked:
            headers["Transfer-Encoding"] = "chunked"
        try:
            connection.request(method, path, body=body, headers=headers, encode_chunked=chunked)
        except (BrokenPipeError, ConnectionResetError):
            # A server that refuses a large body answers before it has read all of it, and the reason is in the answer.
            if not chunked:
                raise
        response = connection.getresponse()
        if response.length is None and not response.chunked:
            # Its end would be that of the connection, and nobody would know whether it is whole.
            response.close()
            raise http.client.HTTPException("the answer does not tell its length")
        return response

    def _take(self) -> http.client.HTTPConnection:
        with self._lock:
            while self._idle:
                connection = self._idle.pop()
                if _is_open(connection):
                    return connection
                connection.close()
        if self.address.encrypted:
            return http.client.HTTPSConnection(
                self.address.host, self.address.port, timeout=self._connect_timeout, context=self._context
            )
        return http.client.HTTPConnection(self.address.host, self.address.port, timeout=self._connect_timeout)

    def _connect(self, connection: http.client.HTTPConnection) -> None:
        try:
            connection.connect()
        except ssl.SSLCertVerificationError as error:
            hint = "name the authority of its certificate: connect(url, ca_file=…)"
            raise Error(
                "unreachable", f"the certificate of {self.address} is not trusted: {error.verify_message}", hint
            ) from error
        except OSError as error:
            hint = "see whether the server runs, and listens there for HTTP"
            raise Error("unreachable", f"cannot connect to {self.address}: {error}", hint) from error
        _keep_alive(connection.sock)

    def put_back(self, connection: http.client.HTTPConnection) -> None:
        """Keeps a connection whose answer was read to the end."""
        with self._lock:
            if len(self._idle) < _IDLE_CONNECTIONS:
                self._idle.append(connection)
                return
        connection.close()

    def _failure(self, error: Exception) -> Error:
        if isinstance(error, (TimeoutError, socket.timeout)):
            hint = "give more time with connect(url, timeout=…), or bound statements with the setting statement_timeout"
            return Error("no_answer", f"{self.address} was silent for longer than the timeout", hint)
        hint = "the log of the server and system.query_log tell why; a statement that writes may have been done"
        return Error("broken_off", f"the connection to {self.address} broke off: {_words(error)}", hint)


class Answer:
    """An answer whose body is read as it comes. It is read to its end, or closed, which ends the query."""

    def __init__(self, door: Door, connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> None:
        self._door = door
        self._connection: http.client.HTTPConnection | None = connection
        self._response = response
        self.status = response.status

    def header(self, name: str) -> str:
        """The value of a header, or an empty text."""
        return self._response.headers.get(name, "")

    @property
    def closed(self) -> bool:
        """Whether all was read, or the rest was given up."""
        return self._connection is None

    def read(self, size: int = -1) -> bytes:
        """So many bytes, or fewer at the end of a body that came as a whole. Raises if it did not."""
        return self._read(lambda: self._response.read(None if size < 0 else size))

    def read_some(self) -> bytes:
        """What is there, after waiting for at least one byte; nothing at the end."""
        return self._read(lambda: self._response.read1(1 << 16))

    def _read(self, read: Any) -> bytes:
        if self._connection is None:
            return b""
        try:
            data: bytes = read()
            # http.client takes an early end of a body of known length for its end.
            if not data and self._response.length:
                raise http.client.IncompleteRead(b"", self._response.length)
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.close()
            raise self._door._failure(error) from error
        if self._response.isclosed():
            self._finish()
        return data

    def _finish(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._response.will_close:
            connection.close()
        else:
            self._door.put_back(connection)

    def json(self) -> Any:
        """The whole body as JSON."""
        text = self.read()
        try:
            return parse_json(text)
        except ValueError as error:
            raise Error(
                "invalid_answer", f"{self._door.address} answered something else than JSON: {text[:200]!r}"
            ) from error

    def error(self) -> Error:
        """The error that the body describes."""
        body = self.read()
        try:
            error = json.loads(body)["error"]
            return Error(error["code"], error["message"], error.get("hint"), status=self.status)
        except (ValueError, KeyError, TypeError):
            message = f"{self._door.address} answered with status {self.status} and no error of Nyala: {body[:200]!r}"
            return Error(
                "invalid_answer", message, "see whether the address is that of Nyala's HTTP door", status=self.status
            )

    def close(self) -> None:
        """Gives up what was not read; the server then ends the query."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._response.close()
            connection.close()

    def __del__(self) -> None:
        self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Login:
    """Proves who asks: by a token that was given, or by one that a password is exchanged for.

    The server takes some ten milliseconds to check a password, so it is sent once an hour and not with each request.
    """

    def __init__(self, user: str | None, password: str | None, token: str | None) -> None:
        if token is not None and (user is not None or password is not None):
            raise ValueError("give a user with a password, or a token, not both")
        if (user is None) != (password is None):
            raise ValueError("a user needs a password, and a password a user")
        self._basic = None if user is None else f"Basic {_base64(f'{user}:{password}')}"
        self._token = token
        self._ends = float("inf")
        self._exchanges = self._basic is not None

    def wants_token(self) -> bool:
        return self._exchanges and (self._token is None or time.monotonic() >= self._ends)

    def proof(self) -> dict[str, str]:
        return {"Authorization": self._basic} if self._basic else {}

    def header(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}"} if self._token else self.proof()

    def keep_token(self, token: str, lifetime_seconds: float) -> None:
        self._token = token
        self._ends = time.monotonic() + lifetime_seconds * _TOKEN_USED

    def do_without_token(self) -> None:
        self._exchanges = False

    def forget_token(self) -> bool:
        """Whether another token may help."""
        if not self._exchanges:
            return False
        self._token = None
        return True


def parse_json(text: str | bytes) -> Any:
    """JSON in which no digit is lost: numbers with a point or an exponent become decimals."""
    return json.loads(text, parse_float=Decimal)


def trust(ca_file: str | None) -> ssl.SSLContext:
    """Verifies the server's name and certificate, by the authorities of a file or of the system."""
    return ssl.create_default_context(cafile=ca_file)


def _is_sent_once(body: Body) -> bool:
    """Whether a body is read while it is sent, so that it cannot be sent again."""
    return body is not None and not isinstance(body, bytes)


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _is_open(connection: http.client.HTTPConnection) -> bool:
    """Whether a kept connection can be used: one that has something to read was closed by the server."""
    if connection.sock is None:
        return False
    poller = select.poll() if hasattr(select, "poll") else None
    if poller is None:
        return not select.select([connection.sock], [], [], 0)[0]
    poller.register(connection.sock, select.POLLIN | select.POLLHUP)
    return not poller.poll(0)


def _keep_alive(sock: socket.socket) -> None:
    """Finds out within some minutes that the other machine is gone, however long a query takes."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_SECONDS)


def _words(error: Exception) -> str:
    if isinstance(error, http.client.IncompleteRead):
        return "the answer is not complete"
    return str(error) or type(error).__name__
