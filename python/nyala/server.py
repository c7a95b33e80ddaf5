"""`nyala.Server`: a server process for tests and notebooks, which ends with the process that started it."""

from __future__ import annotations

import http.client
import importlib.metadata
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union
from urllib.parse import urlsplit

from .errors import Error
from .toml import to_toml

if TYPE_CHECKING:
    from typing_extensions import Self

    from .connection import Connection

StrPath = Union[str, "os.PathLike[str]"]

_POLL_SECONDS = 0.02
_LOG_LINES = 20
_FREE_PORT = "127.0.0.1:0"
# Of the variables that configure a server, only the one for its log is passed on: `**config` alone decides the rest.
_PASSED_ON = "NYALA_LOG"


class Server:
    """A server of its own, on free ports of this machine.

    >>> import nyala
    >>> with nyala.Server() as server, nyala.connect(server) as connection:
    ...     connection.execute("SELECT 40 + 2").scalar()
    42

    `data_dir` is the data folder, a temporary one without it. `binary` is the program, by default the one of `$NYALA_BINARY`, else that
    of the installed wheel, else the one on `$PATH`. `config` are the keys of `docs/reference/configuration.md`, sections as
    dictionaries: `Server(query={"threads": 2})`. Other configuration files and variables `NYALA_…` do not count. The server has
    `ready_seconds` to start, and `stop_seconds` to stop before it is killed, which should be longer than `server.shutdown_grace_ms`.

    The server stops at the end of `with`, by `stop`, when this object is gone, and when Python exits; on Linux also when Python is
    killed.
    """

    def __init__(
        self,
        data_dir: StrPath | None = None,
        binary: StrPath | None = None,
        *,
        ready_seconds: float = 60.0,
        stop_seconds: float = 20.0,
        **config: Any,
    ) -> None:
        self._given_data_dir = data_dir
        self._binary = binary
        self._ready_seconds = ready_seconds
        self._stop_seconds = stop_seconds
        self._config = config
        self._running: _Running | None = None

    def start(self) -> Server:
        """Starts it, and returns when it answers."""
        if self._running is not None:
            raise Error("start_failed", "this server runs already", "stop it first, or use another Server")
        self._running = _start(find_binary(self._binary), self._given_data_dir, self._config, self._stop_seconds)
        try:
            self._running.doors = _wait_until_ready(self._running, self._ready_seconds)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stops it: queries that run may end within `server.shutdown_grace_ms`. It may be stopped already."""
        running, self._running = self._running, None
        if running is not None:
            running.end()

    def connect(self, **options: Any) -> Connection:
        """The same as `nyala.connect(server, …)`."""
        from .connection import connect

        return connect(self, **options)

    @property
    def url(self) -> str:
        """Where it answers HTTP."""
        return self._doors.http

    @property
    def postgres_url(self) -> str:
        """Where it answers PostgreSQL clients."""
        return f"postgresql://nyala@{self._doors.postgres}/nyala"

    @property
    def sqlalchemy_url(self) -> str:
        """The same for `sqlalchemy.create_engine`."""
        return f"nyala://nyala@{self._doors.postgres}/nyala"

    @property
    def data_dir(self) -> Path:
        """Its data folder."""
        return self._checked.data_dir

    @property
    def pid(self) -> int:
        """Its process."""
        return self._checked.process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process lives."""
        return self._running is not None and self._running.process.poll() is None

    def log(self) -> str:
        """What it has logged."""
        return self._checked.log()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def _checked(self) -> _Running:
        if self._running is None:
            raise Error("not_running", "this server does not run", "call start(), or use it in a `with` statement")
        return self._running

    @property
    def _doors(self) -> _Doors:
        doors = self._checked.doors
        if doors is None:
            raise Error("not_running", "this server is not ready yet")
        return doors


def find_binary(binary: StrPath | None = None) -> str:
    """The absolute path of the program `nyala`."""
    if binary is not None:
        return _checked_program(binary, "binary")
    variable = os.environ.get("NYALA_BINARY")
    if variable:
        return _checked_program(variable, "the environment variable NYALA_BINARY")
    found = _installed_program() or shutil.which("nyala")
    if found is None:
        hint = "pip install nyala, or name the program: Server(binary=…) or the environment variable NYALA_BINARY"
        raise Error("no_binary", "there is no program `nyala`, neither beside this package nor on PATH", hint)
    return os.path.abspath(found)


def _checked_program(path: StrPath, origin: str) -> str:
    found = shutil.which(path)
    if found is None:
        raise Error("no_binary", f"`{os.fspath(path)}` is no program that can be run", f"{origin} names it")
    return os.path.abspath(found)


def _installed_program() -> str | None:
    """The program that the wheel has brought, wherever its scripts were installed."""
    try:
        files = importlib.metadata.files("nyala") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    programs = (str(file.locate()) for file in files if file.name in ("nyala", "nyala.exe"))
    return next(filter(shutil.which, programs), None)


@dataclass(frozen=True)
class _Doors:
    """A URL of HTTP, and host and port for PostgreSQL clients."""

    http: str
    postgres: str


class _Running:
    """A server process, its files, and the promise that it ends."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path, data_dir: Path, stop_seconds: float) -> None:
        self.process = process
        self.data_dir = data_dir
        self.doors: _Doors | None = None
        self._folder = folder
        # Also called when Python exits.
        self.end = weakref.finalize(self, _end, process, folder, stop_seconds, os.getpid())

    def log(self) -> str:
        return _read(self._folder / "log")

    def greeting(self) -> str:
        return _read(self._folder / "greeting")


def _start(program: str, data_dir: StrPath | None, config: Mapping[str, Any], stop_seconds: float) -> _Running:
    folder = Path(tempfile.mkdtemp(prefix="nyala-"))
    try:
        # It may have secrets; the folder is its owner's alone.
        (folder / "nyala.toml").write_text(to_toml(config), encoding="utf-8")
        data = Path(data_dir or folder / "data").absolute()
        process = _spawn(_command(program, folder, data, config.get("server", {})), folder)
    except BaseException:
        shutil.rmtree(folder)
        raise
    return _Running(process, folder, data, stop_seconds)


def _command(program: str, folder: Path, data_dir: Path, server: Mapping[str, Any]) -> list[str]:
    command = [program, "serve", "--config", str(folder / "nyala.toml"), "--data-dir", str(data_dir)]
    for key in ("postgres_listen", "http_listen"):
        if key not in server:
            command += [f"--{key.replace('_', '-')}", _FREE_PORT]
    return command


def _spawn(command: list[str], folder: Path) -> subprocess.Popen[bytes]:
    """Starts the process from a thread that lives as long as it does: see `launch.py`."""
    started: Future[subprocess.Popen[bytes]] = Future()
    arguments = (_launched(command), folder, started)
    threading.Thread(target=_own, args=arguments, name="nyala-server", daemon=True).start()
    return started.result()


def _own(command: list[str], folder: Path, started: Future[subprocess.Popen[bytes]]) -> None:
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("NYALA_") or name == _PASSED_ON
    }
    try:
        with (folder / "greeting").open("wb") as greeting, (folder / "log").open("wb") as log:
            # In a session of its own, so that Ctrl-C and the interrupt of a notebook do not reach it.
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=greeting, stderr=log, env=environment, start_new_session=True
            )
    except BaseException as error:  # noqa: BLE001 (it belongs to the thread that waits for it)
        started.set_exception(error)
        return
    started.set_result(process)
    process.wait()


def _launched(command: list[str]) -> list[str]:
    if not sys.platform.startswith("linux") or not sys.executable:
        return command
    launcher = str(Path(__file__).with_name("launch.py"))
    return [sys.executable, "-I", "-S", launcher, str(os.getpid()), *command]


def _end(process: subprocess.Popen[bytes], folder: Path, stop_seconds: float, owner: int) -> None:
    # A copy of Python that was forked has a copy of this object, and the server is not its own.
    if os.getpid() != owner:
        return
    try:
        _terminate(process, stop_seconds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _terminate(process: subprocess.Popen[bytes], stop_seconds: float) -> None:
    process.terminate()
    try:
        process.wait(stop_seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _wait_until_ready(running: _Running, seconds: float) -> _Doors:
    deadline = time.monotonic() + seconds
    while True:
        code = running.process.poll()
        if code is not None:
            raise _not_started(running, f"the server ended {_how(code)} before it was ready")
        doors = _doors_in(running.greeting())
        if doors is not None and _is_ready(doors):
            return doors
        if time.monotonic() >= deadline:
            raise _not_started(running, f"the server was not ready within {seconds:g} seconds")
        time.sleep(_POLL_SECONDS)


def _not_started(running: _Running, message: str) -> Error:
    lines = running.log().splitlines()[-_LOG_LINES:]
    log = "\n".join(["its log ends with:", *lines]) if lines else "its log is empty"
    return Error("start_failed", f"{message}; {log}")


def _how(code: int) -> str:
    return f"by signal {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"


def _doors_in(greeting: str) -> _Doors | None:
    """The addresses in what a server prints when it listens; none before."""
    http_url = re.search(r"^  curl  curl -s (https?://\S+)/api/v1/query ", greeting, re.MULTILINE)
    postgres = re.search(r"^  psql  psql -h (\S+) -p (\d+) ", greeting, re.MULTILINE)
    if http_url is None or postgres is None:
        return None
    host, port = postgres.groups()
    return _Doors(http_url[1], f"[{host}]:{port}" if ":" in host else f"{host}:{port}")


def _is_ready(doors: _Doors) -> bool:
    parts = urlsplit(doors.http)
    host, port = parts.hostname or "", parts.port
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        # Nothing is told to it here, and its certificate names some host, hardly the address it listens on.
        connection = http.client.HTTPSConnection(host, port, timeout=5, context=ssl._create_unverified_context())
    else:
        connection = http.client.HTTPConnection(host, port, timeout=5)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")
