"""Servers start, tell why they do not, and end with the process that started them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import nyala
from nyala.server import _Doors, _is_ready

PATIENCE_SECONDS = 30.0


def test_a_server_answers_and_is_gone_afterwards() -> None:
    with nyala.Server() as server:
        pid, data_dir = server.pid, server.data_dir
        assert server.is_running
        assert nyala.connect(server).execute("SELECT 1").rows() == [(1,)]
    assert not is_alive(pid)
    assert not data_dir.exists()
    assert not server.is_running
    with pytest.raises(nyala.Error, match=r"does not run.*\[not_running\]") as caught:
        _ = server.url
    assert caught.value.hint == "call start(), or use it in a `with` statement"


def test_a_data_folder_stays_and_is_served_again(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    with nyala.Server(data_dir) as server, server.connect() as connection:
        connection.execute("CREATE LIVE TABLE kept (id INT PRIMARY KEY)")
        connection.execute("INSERT INTO kept VALUES (7)")
    with nyala.Server(data_dir) as server, server.connect() as connection:
        assert connection.execute("SELECT * FROM kept").rows() == [(7,)]


def test_a_server_can_be_started_and_stopped_by_hand() -> None:
    server = nyala.Server()
    server.start()
    with pytest.raises(nyala.Error, match="runs already"):
        server.start()
    server.stop()
    server.stop()
    server.start()
    assert server.is_running
    server.stop()


def test_two_servers_do_not_meet() -> None:
    with nyala.Server() as one, nyala.Server() as two:
        assert one.url != two.url
        assert one.postgres_url != two.postgres_url


def test_configuration_is_passed_on() -> None:
    with nyala.Server(
        query={"threads": 1}, admission={"groups": {"reports": {"slots": 3, "users": ["ann"]}}}
    ) as server:
        rows = (
            server.connect().execute("SELECT slots FROM system.resource_groups WHERE resource_group = 'reports'").rows()
        )
    assert rows == [(3,)]


def test_variables_of_the_environment_do_not_configure_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NYALA_SERVER__MAX_CONNECTIONS", "no number")
    monkeypatch.chdir(tmp_path)
    Path("nyala.toml").write_text("nonsense = 1\n")
    with nyala.Server() as server:
        assert server.is_running


def test_an_unknown_key_is_told() -> None:
    with pytest.raises(nyala.Error, match="start_failed") as caught:
        nyala.Server(server={"http_lisen": "1"}).start()
    assert "server.http_lisen" in caught.value.message
    assert "did you mean `http_listen`?" in caught.value.message


def test_a_key_of_a_type_that_toml_lacks_is_told() -> None:
    with pytest.raises(TypeError, match=r"`query\.threads` is a object"):
        nyala.Server(query={"threads": object()}).start()


def test_a_port_in_use_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(nyala.Error, match="in use") as caught:
            nyala.Server(server={"http_listen": f"127.0.0.1:{port}"}).start()
    assert caught.value.code == "start_failed"
    assert str(port) in caught.value.message


def test_a_folder_in_use_is_told(tmp_path: Path) -> None:
    with nyala.Server(tmp_path), pytest.raises(nyala.Error, match="start_failed") as caught:
        nyala.Server(tmp_path).start()
    assert str(tmp_path) in caught.value.message


def test_a_server_that_is_not_ready_in_time_is_ended(tmp_path: Path) -> None:
    sleeper = program(tmp_path, "echo waiting for something >&2; exec sleep 1000")
    started = time.monotonic()
    with pytest.raises(nyala.Error, match=r"not ready within 0\.3 seconds") as caught:
        nyala.Server(binary=sleeper, ready_seconds=0.3).start()
    assert "waiting for something" in caught.value.message
    assert time.monotonic() - started < PATIENCE_SECONDS


def test_a_server_that_does_not_end_is_killed(tmp_path: Path) -> None:
    deaf = program(tmp_path, "trap '' TERM; echo deaf >&2; while :; do sleep 0.05; done")
    server = nyala.Server(binary=deaf, ready_seconds=0.3, stop_seconds=0.3)
    with pytest.raises(nyala.Error, match="deaf"):
        server.start()
    assert not server.is_running


@pytest.mark.parametrize(
    ("binary", "variable", "message"),
    [
        ("/no/such/nyala", None, "`/no/such/nyala` is no program that can be run"),
        (None, "/no/such/nyala", "`/no/such/nyala` is no program that can be run"),
        (None, "", "there is no program `nyala`"),
    ],
)
def test_a_missing_program_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, binary: str | None, variable: str | None, message: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    if variable is not None:
        monkeypatch.setenv("NYALA_BINARY", variable)
    with pytest.raises(nyala.Error, match=message) as caught:
        nyala.Server(binary=binary).start()
    assert caught.value.code == "no_binary"
    assert caught.value.hint


def test_a_program_on_path_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "nyala").symlink_to(os.environ["NYALA_BINARY"])
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("NYALA_BINARY")
    with nyala.Server() as server:
        assert server.is_running


def test_a_killed_server_is_noticed() -> None:
    with nyala.Server() as server:
        os.kill(server.pid, signal.SIGKILL)
        eventually(lambda: not server.is_running)
        with pytest.raises(nyala.Error) as caught:
            server.connect().execute("SELECT 1")
        assert caught.value.code == "unreachable"


@pytest.mark.parametrize(
    "end",
    ["pass", "sys.exit(3)", "raise ValueError", "os.kill(os.getpid(), 9)", "os._exit(1)", "os.kill(os.getpid(), 15)"],
)
def test_no_server_survives_its_python(end: str) -> None:
    script = f"import nyala, os, sys\nserver = nyala.Server().start()\nprint(server.pid, flush=True)\n{end}"
    assert_gone_after(script)


def test_no_server_survives_its_python_when_a_thread_started_it() -> None:
    script = """
import nyala, threading, time, os
servers = []
def start():
    servers.append(nyala.Server().start())
thread = threading.Thread(target=start)
thread.start()
thread.join()
time.sleep(0.5)
assert servers[0].connect().execute("SELECT 1").scalar() == 1, "it ended with the thread"
print(servers[0].pid, flush=True)
os.kill(os.getpid(), 9)
"""
    assert_gone_after(script)


def test_a_forked_python_leaves_the_server_alone() -> None:
    with nyala.Server() as server:
        script = f"""
import nyala, os
with nyala.Server() as server:
    child = os.fork()
    if child == 0:
        raise SystemExit
    os.waitpid(child, 0)
    assert server.is_running
    assert nyala.connect(server).execute("SELECT 1").scalar() == 1
assert nyala.connect({server.url!r}).execute("SELECT 1").scalar() == 1
"""
        finished = run_python(script, "-W", "ignore::DeprecationWarning")
        assert finished.returncode == 0, finished.stderr


def test_an_interrupt_of_the_terminal_does_not_reach_it() -> None:
    with nyala.Server() as server:
        assert os.getpgid(server.pid) != os.getpgid(0)


def test_the_log_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NYALA_LOG", "debug")
    with nyala.Server() as server:
        assert "DEBUG" in server.log()


def test_a_server_that_answers_something_else_is_not_ready() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            client, _ = listener.accept()
            with client:
                client.recv(1 << 16)
                client.sendall(b"220 mail.example ESMTP\r\n")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        assert not _is_ready(_Doors(f"http://127.0.0.1:{listener.getsockname()[1]}", ""))
        thread.join(PATIENCE_SECONDS)


def test_a_connection_is_pinged() -> None:
    with nyala.Server() as server:
        connection = server.connect()
        connection.ping()
        server.stop()
        with pytest.raises(nyala.Error) as caught:
            connection.ping()
    assert caught.value.code == "unreachable"


def assert_gone_after(script: str) -> None:
    finished = run_python(script)
    pid = int(finished.stdout.split()[0]) if finished.stdout else pytest.fail(finished.stderr)
    eventually(lambda: not is_alive(pid))


def run_python(script: str, *options: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(nyala.__file__).parents[1])}
    return subprocess.run(
        [sys.executable, *options, "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


def program(folder: Path, body: str) -> Path:
    path = folder / "program"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o700)
    return path


def is_alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    # A process that nobody waits for, because the parent of its parent does not, has ended all the same.
    return stat.rpartition(")")[2].split()[0] != "Z"


def eventually(condition: object) -> None:
    assert callable(condition)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it does not come true"
        time.sleep(0.02)
