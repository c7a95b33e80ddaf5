"""A cluster on this machine: PostgreSQL for the catalog, the lab's bucket, coordinators and executors as processes.

Built on the lab of the benchmarks of object storage, whose ports and variables it shares. Only the standard library is used.
"""

import json
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "object"))
import lab  # noqa: E402

from links import Link  # noqa: E402

SECRET = "cluster lab, not secret at all: 0123456789"
PG_PORT = int(os.environ.get("PG_PORT", "15632"))


class Postgres:
    """A server of the catalog in a folder of its own."""

    def __init__(self, work: pathlib.Path):
        self.folder = work / "postgres"
        found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))
        self.programs = found[-1] if found else pathlib.Path("/usr/bin")

    def run(self, program: str, *arguments: str) -> subprocess.CompletedProcess:
        # It refuses to run as root.
        command = [str(self.programs / program), *arguments]
        if os.geteuid() == 0:
            command = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", *command]
        return subprocess.run(command, cwd="/tmp", stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)

    def start(self, empty: bool = True) -> "Postgres":
        if empty:
            self.stop()
            shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        if os.geteuid() == 0:
            owner = pwd.getpwnam("nobody")
            os.chown(self.folder, owner.pw_uid, owner.pw_gid)
        data = str(self.folder / "data")
        if not (self.folder / "data").exists():
            self.run("initdb", "-D", data, "-U", "nyala", "--auth=trust", "-N").check_returncode()
        options = f"-p {PG_PORT} -k {self.folder} -c listen_addresses=127.0.0.1 -c max_connections=200"
        self.run("pg_ctl", "-D", data, "-l", str(self.folder / "log"), "-o", options, "-w", "start").check_returncode()
        return self

    def stop(self) -> None:
        if (self.folder / "data" / "postmaster.pid").exists():
            self.run("pg_ctl", "-D", str(self.folder / "data"), "-m", "immediate", "-w", "stop")

    @property
    def url(self) -> str:
        return f"postgres://nyala@127.0.0.1:{PG_PORT}/postgres"


class Cluster:
    """Nodes over one catalog and one bucket. Coordinators take statements and read no files; executors read them."""

    def __init__(
        self,
        nyala: str,
        work: pathlib.Path,
        coordinators: int,
        executors: int,
        port: int = 18490,
        memory: str = "3GiB",
        cache: str = "2GiB",
        through_links: bool = False,
        single_node_rows: int | None = None,
        slots: int = 0,
    ):
        self.links: dict[str, Link] | None = {} if through_links else None
        self.single_node_rows, self.slots = single_node_rows, slots
        self.nyala, self.work, self.port, self.memory, self.cache = nyala, work, port, memory, cache
        self.postgres = Postgres(work)
        self.coordinators = [self._node(f"coordinator{i}", i, False) for i in range(coordinators)]
        self.executors = [self._node(f"executor{i}", 10 + i, True) for i in range(executors)]

    def _node(self, name: str, number: int, executor: bool, more: dict | None = None) -> lab.Server:
        port = self.port + number
        sections = {
            "catalog": {"url": self.postgres.url},
            "storage": {"data": f"{lab.BUCKET}/cuboids/"},
            "node": {"listen": f"127.0.0.1:{port + 200}", "secret": SECRET, "executor": executor},
            "query": {"memory_limit_bytes": self.memory if executor else "1GiB"},
            # 64 streams on two cores wait longer than a dashboard would.
            "admission.groups.default": {"queue_timeout_ms": 600_000, "slots": self.slots},
        }
        if self.single_node_rows:
            sections["query"]["single_node_rows"] = self.single_node_rows
        if self.links is not None:
            sections["node"]["address"] = f"127.0.0.1:{port + 400}"
            self.links[name] = Link(port + 400, port + 200)
        sections |= more or {}
        cache = {"disk_bytes": self.cache, "memory_bytes": "64MiB"}
        return lab.Server(self.nyala, self.work, name, lab.BUCKET, port, cache, sections)

    def add_coordinator(self, name: str, number: int, memory: str, hot_percent: int) -> lab.Server:
        """A further coordinator, with so little memory for cuboids."""
        node = self._node(name, number, False, {"query": {"memory_limit_bytes": memory}, "cache": {"hot_cuboids_percent": hot_percent}})
        self.coordinators.append(node)
        return node

    def add_executor(self) -> lab.Server:
        node = self._node(f"executor{len(self.executors)}", 10 + len(self.executors), True)
        self.executors.append(node)
        return node

    @property
    def nodes(self) -> list[lab.Server]:
        return self.coordinators + self.executors

    def start(self, empty: bool = True) -> "Cluster":
        """Starts everything; `empty` forgets what an earlier run left."""
        self.postgres.start(empty)
        if empty:
            shutil.rmtree(lab.store_folder(self.work) / "cuboids", ignore_errors=True)
        for node in self.nodes:
            if empty:
                shutil.rmtree(node.folder / "data", ignore_errors=True)
            node.start(empty_cache=empty)
        self.wait_for_executors(len(self.executors))
        return self

    def wait_for_executors(self, count: int, within: float = 30) -> None:
        """Waits until each node that takes statements knows so many living executors, and no other."""
        until = time.monotonic() + within
        for node in self.coordinators or self.executors:
            while len(self.executors_known_to(node)) != count:
                if time.monotonic() > until:
                    sys.exit(f"{node.folder.name} knows {self.executors_known_to(node)}, not {count} executors")
                time.sleep(0.2)

    @staticmethod
    def executors_known_to(node: lab.Server) -> list[str]:
        sql = "SELECT node FROM system.nodes WHERE executor AND state = 'serving'"
        return [row[0] for row in rows(node, sql)]

    def create_tables(self, benchmark: str) -> None:
        """Tables over the folders of a benchmark in the bucket, in a schema of its name."""
        first = lab.Client(self.nodes[0].port)
        first.ask(f"CREATE SCHEMA IF NOT EXISTS {benchmark}")
        for folder in sorted((lab.store_folder(self.work) / benchmark).iterdir()):
            location = f"{lab.BUCKET}/{benchmark}/{folder.name}/"
            first.ask(
                f"CREATE EXTERNAL TABLE IF NOT EXISTS {benchmark}.{folder.name} STORED AS PARQUET LOCATION '{location}'"
            )
        for node in self.nodes:
            wait_for_schema(node, benchmark)

    def stop(self) -> None:
        lab.stop_all()
        self.postgres.stop()


def rows(node: lab.Server, sql: str, schema: str | None = None) -> list[list]:
    """The rows of an answer."""
    return json.loads(lab.Client(node.port, schema).ask(sql)[0])["rows"]


def wait_for_schema(node: lab.Server, name: str) -> None:
    sql = f"SELECT count(*) FROM information_schema.schemata WHERE schema_name = '{name}'"
    for _ in range(100):
        if rows(node, sql) == [[1]] or rows(node, sql) == [["1"]]:
            return
        time.sleep(0.1)
    sys.exit(f"{node.folder.name} does not know schema {name}")


def parser(description: str):
    """A parser of what all benchmarks of the cluster take."""
    made = lab.parser(description)
    made.set_defaults(work=lab.folder("/tmp/cluster"), port=18490)
    return made


def stop_on_signals() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
