"""What the benchmarks of object storage share: the lab's store and its counters, data, and servers over it.

The lab is what `lab.sh up FOLDER` starts; its ports come from the same variables as there. Only the standard library is used.
"""

import argparse
import hashlib
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
S3_PORT = int(os.environ.get("S3_PORT", "17071"))
CONTROL_PORT = int(os.environ.get("CONTROL_PORT", "17073"))
BUCKET = "s3://lab"

TomlValue = bool | int | str | list[str]


class Client:
    """Asks one server over HTTP, on a connection that stays open."""

    def __init__(self, port: int, schema: str | None = None):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
        self.settings = {"search_path": schema} if schema else {}

    def ask(self, sql: str) -> tuple[bytes, float]:
        """The body of the answer, and after how many milliseconds all of it had arrived."""
        body = json.dumps({"sql": sql, "settings": self.settings})
        begun = time.perf_counter()
        try:
            self.connection.request("POST", "/api/v1/query", body, {"content-type": "application/json"})
            answer = self.connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException):
            self.connection.close()  # The next request opens another one.
            raise
        took = (time.perf_counter() - begun) * 1000
        if answer.status != 200:
            raise QueryError(f"{content.decode()}\n{sql}")
        return content, took


class QueryError(Exception):
    """The server answered with an error."""


class Server:
    """One `nyala serve` with a data folder of its own, which has all tables under `location`.

    `sections` are added to its configuration.
    """

    running: list["Server"] = []

    def __init__(
        self,
        nyala: str,
        work: pathlib.Path,
        name: str,
        location: str,
        port: int,
        cache: dict[str, TomlValue] | None,
        sections: dict[str, dict[str, TomlValue]] | None = None,
    ):
        self.nyala, self.location, self.port = nyala, location, port
        self.folder = work / "servers" / name
        self.cache_folder = self.folder / "block-cache"
        # Variables that its process has besides those of the benchmark.
        self.environment: dict[str, str] = {}
        self.folder.mkdir(parents=True, exist_ok=True)
        self.config = self.folder / "nyala.toml"
        server = {"postgres_listen": f"127.0.0.1:{port + 500}", "http_listen": f"127.0.0.1:{port}"}
        s3 = {
            "endpoint": f"http://127.0.0.1:{S3_PORT}",
            "region": "us-east-1",
            "access_key_id": "lab",
            "secret_access_key": "lab-secret",
            "allow_http": True,
        }
        sections = {"server": server, "storage.s3": s3, **(sections or {})}
        if cache is not None:
            sections["storage.cache"] = {"folder": str(self.cache_folder), **cache}
        lines = [f"data_dir = {json.dumps(str(self.folder / 'data'))}"]
        for section, keys in sections.items():
            # A TOML value of these types is written as in JSON.
            lines += ["", f"[{section}]", *(f"{key} = {json.dumps(value)}" for key, value in keys.items())]
        self.config.write_text("\n".join(lines) + "\n")

    def start(self, empty_cache: bool = False) -> "Server":
        if empty_cache:
            shutil.rmtree(self.cache_folder, ignore_errors=True)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                sys.exit(f"another server listens on port {self.port}: stop it, or choose another --port")
        log = open(self.folder / "log", "a")
        environment = {key: value for key, value in os.environ.items() if not key.startswith("NYALA_")}
        environment |= self.environment
        command = [self.nyala, "serve", "--config", str(self.config)]
        self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        Server.running.append(self)
        client = Client(self.port)
        for _ in range(600):
            try:
                client.ask("SELECT 1")
                return self
            except (OSError, http.client.HTTPException):
                if self.process.poll() is not None:
                    break
                time.sleep(0.1)
        sys.exit(f"the server does not answer; its log is {self.folder / 'log'}")

    def create_tables(self, benchmark: str) -> None:
        """The tables of a benchmark in a schema of its name, unless they are there."""
        have = json.loads(Client(self.port).ask("SELECT table_schema FROM information_schema.tables")[0])["rows"]
        if [benchmark] in have:
            return
        Client(self.port).ask(f"CREATE SCHEMA IF NOT EXISTS {benchmark}")
        self.run_file(benchmark, "tables.sql")

    def build_cubes(self, benchmark: str) -> None:
        """The cubes of a benchmark, built, unless they are there."""
        client = Client(self.port, benchmark)
        if cubes(client):
            return
        self.run_file(benchmark, "cube.sql" if benchmark == "ssb" else "cubes.sql")
        for cube in cubes(client):
            client.ask(f"BUILD CUBE {cube}")

    def run_file(self, benchmark: str, name: str) -> None:
        """The statements of a file of the benchmark."""
        text = (HERE.parent / benchmark / name).read_text().replace("${DATA}", f"{self.location}/{benchmark}")
        text = re.sub("--.*", "", text)
        for statement in filter(None, (part.strip() for part in text.split(";"))):
            Client(self.port, benchmark).ask(statement)

    def cpu_seconds(self) -> float:
        """Processor time of the process until now."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(how)
        self.process.wait()
        Server.running.remove(self)


def cubes(client: Client) -> list[str]:
    """The cubes of the client's schema."""
    schema = client.settings["search_path"]
    rows = json.loads(client.ask(f"SELECT cube FROM system.cubes WHERE schema = '{schema}'")[0])["rows"]
    return [name for (name,) in rows]


def stop_all() -> None:
    for server in list(Server.running):
        server.stop(signal.SIGKILL)


def parser(description: str) -> argparse.ArgumentParser:
    """A parser of what all benchmarks take."""
    made = argparse.ArgumentParser(description=description.splitlines()[0])
    made.add_argument("--nyala", default="target/release/nyala", help="the binary")
    made.add_argument("--work", type=folder, default="/tmp/object", help="folder of all files")
    made.add_argument("--port", type=int, default=18390)
    return made


def folder(text: str) -> pathlib.Path:
    """The value of --work."""
    path = pathlib.Path(text).resolve()
    path.mkdir(parents=True, exist_ok=True)
    return path


def up(work: pathlib.Path) -> None:
    """Starts the lab, which goes on running afterwards."""
    # So that servers end with a benchmark that is ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    subprocess.run([HERE / "lab.sh", "up", work], check=True, stdout=subprocess.DEVNULL)


def store_folder(work: pathlib.Path) -> pathlib.Path:
    """The bucket as a folder: each file in it is an object."""
    return work / "store" / "lab"


def prepare(nyala: str, work: pathlib.Path, benchmark: str, scale: str = "1") -> None:
    """The data of a benchmark as objects of the bucket, made once."""
    folder = store_folder(work) / benchmark
    if folder.exists():
        return
    part = work / f"{benchmark}.part"
    shutil.rmtree(part, ignore_errors=True)
    subprocess.run([nyala, "gen", benchmark, "--scale", scale, "--out", part], check=True, stdout=subprocess.DEVNULL)
    for file in part.rglob("*.parquet"):
        # What an upload leaves there: without it the store would tell no ETag.
        os.setxattr(file, "user.etag", f'"{hashlib.md5(file.read_bytes()).hexdigest()}"'.encode())
    part.rename(folder)


def queries(benchmark: str) -> dict[str, str]:
    """Text by name: `1.1` to `4.3` of ssb, `1` to `22` of tpch."""
    files = sorted((HERE.parent / benchmark / "queries").glob("q*.sql"))
    return {file.stem[1:].lstrip("0"): file.read_text().strip().rstrip(";") for file in files}


def control(method: str, path: str) -> bytes:
    request = urllib.request.Request(f"http://127.0.0.1:{CONTROL_PORT}{path}", method=method)
    with urllib.request.urlopen(request) as answer:
        return answer.read()


def reset() -> None:
    control("POST", "/_reset")


def counters(settle: bool = True) -> dict:
    """What the store was asked since the last reset; waits first until no request has been open for 50 milliseconds."""
    found, quiet = json.loads(control("GET", "/_counters")), 0
    while settle and quiet < 3:
        time.sleep(0.025)
        again = json.loads(control("GET", "/_counters"))
        quiet = quiet + 1 if again["open"] == 0 and again["operations"] == found["operations"] else 0
        found = again
    return found


def get_bytes(counted: dict, prefix: str = "/") -> int:
    """Bytes of objects that the store sent, of those keys alone."""
    return sum(totals["bytes"] for key, totals in counted["get_by_key"].items() if key.startswith(prefix))


def requests(counted: dict) -> int:
    return sum(totals["requests"] for totals in counted["operations"].values())


def canonical(content: bytes) -> list[list]:
    """Rows in an order of their own, with as many digits of doubles as do not depend on the order of a sum."""
    answer = json.loads(content, parse_float=str)
    doubles = [column["type"] in ("double precision", "double", "real") for column in answer["columns"]]

    def cell(value, double: bool):
        return f"{float(value):.9g}" if double and value is not None else value

    rows = [[cell(value, double) for value, double in zip(row, doubles, strict=True)] for row in answer["rows"]]
    return sorted(rows, key=repr)
