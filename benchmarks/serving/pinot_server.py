"""Apache Pinot on this machine: its programs from Maven Central, its one table, and its processes."""

import contextlib
import http.client
import json
import os
import pathlib
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator

VERSION = "0.11.0"  # the newest whose programs are all on Maven Central
TABLE = "ssb"
ZOOKEEPER, CONTROLLER, BROKER, SERVER, ADMIN = range(5)  # ports, from the first that is given

# Kafka's registry is not on Maven Central, and ORC's reader never was; neither is needed here.
POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>benchmarks</groupId><artifactId>pinot</artifactId><version>1</version>
  <dependencies><dependency>
    <groupId>org.apache.pinot</groupId><artifactId>pinot-tools</artifactId><version>{VERSION}</version>
    <exclusions>
      <exclusion><groupId>io.confluent</groupId><artifactId>*</artifactId></exclusion>
      <exclusion><groupId>org.apache.pinot</groupId><artifactId>pinot-orc</artifactId></exclusion>
    </exclusions>
  </dependency></dependencies>
</project>
"""

WHOLE_NUMBERS = ["d_year", "d_yearmonthnum", "d_weeknuminyear", "lo_discount", "lo_quantity"]
PLACES = ["c_region", "c_nation", "c_city", "s_region", "s_nation", "s_city"]
TEXTS = ["d_yearmonth", *PLACES, "p_mfgr", "p_category", "p_brand1"]
MEASURES = ["price_discount", "revenue", "profit"]

# What is filtered by single values comes first. Pinot takes the first tree that has all columns of a query, so that
# a tree comes before those with more.
STAR_TREES = [
    ("d_year, lo_discount, lo_quantity", "price_discount"),  # Q1.1
    ("d_yearmonthnum, lo_discount, lo_quantity", "price_discount"),  # Q1.2
    ("d_year, d_weeknuminyear, lo_discount, lo_quantity", "price_discount"),  # Q1.3
    ("s_region, p_brand1, d_year", "revenue"),  # Q2.2, Q2.3
    ("s_region, p_category, p_brand1, d_year", "revenue"),  # Q2.1
    ("c_region, s_region, d_year, c_nation, s_nation", "revenue"),  # Q3.1
    ("c_city, s_city, d_year", "revenue"),  # Q3.3
    ("c_nation, s_nation, d_year, c_city, s_city", "revenue"),  # Q3.2
    ("d_yearmonth, c_city, s_city, d_year", "revenue"),  # Q3.4
    ("c_region, s_region, p_mfgr, d_year, c_nation", "profit"),  # Q4.1
    ("c_region, s_region, d_year, p_mfgr, s_nation, p_category", "profit"),  # Q4.2
    ("c_region, s_nation, p_category, d_year, s_city, p_brand1", "profit"),  # Q4.3
]


def schema() -> dict:
    kinds = [(WHOLE_NUMBERS, "INT"), (TEXTS, "STRING")]
    return {
        "schemaName": TABLE,
        "dimensionFieldSpecs": [{"name": name, "dataType": kind} for names, kind in kinds for name in names],
        "metricFieldSpecs": [{"name": name, "dataType": "LONG"} for name in MEASURES],
    }


def table(leaf_records: int) -> dict:
    """Every query uses all columns of its tree, so that nodes for any value would never be read."""
    trees = [
        {
            "dimensionsSplitOrder": columns.split(", "),
            "skipStarNodeCreationForDimensions": columns.split(", "),
            "functionColumnPairs": [f"SUM__{measure}"],
            "maxLeafRecords": leaf_records,
        }
        for columns, measure in STAR_TREES
    ]
    return {
        "tableName": TABLE,
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1"},
        "tenants": {},
        "tableIndexConfig": {"loadMode": "MMAP", "noDictionaryColumns": MEASURES, "starTreeIndexConfigs": trees},
        "metadata": {},
    }


class Refused(Exception):
    """An answer other than 200."""


class Pinot:
    """Programs and files in a folder, and processes while it runs."""

    def __init__(self, folder: pathlib.Path, port: int, heap: str):
        self.folder, self.port, self.heap = folder, port, heap
        self.processes: list[subprocess.Popen] = []
        folder.mkdir(parents=True, exist_ok=True)

    def fetch(self) -> None:
        if not (self.folder / "lib").exists():
            (self.folder / "pom.xml").write_text(POM)
            flags = ["-q", "-B", "-DoutputDirectory=new", "-DincludeScope=runtime"]
            subprocess.run(["mvn", *flags, "dependency:copy-dependencies"], cwd=self.folder, check=True)
            (self.folder / "new").rename(self.folder / "lib")

    def command(self, heap: str, *arguments: str) -> list[str]:
        # Pinot of this version was made for Java 11, which only warned of these.
        packages = ["java.nio", "sun.nio.ch", "java.lang", "java.util"]
        flags = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in packages]
        main = "org.apache.pinot.tools.admin.PinotAdministrator"
        return ["java", f"-Xmx{heap}", *flags, "-cp", f"{self.folder}/lib/*", main, *arguments]

    def run(self, *arguments: str) -> None:
        with (self.folder / "commands.log").open("a") as log:
            subprocess.run(self.command(self.heap, *arguments), check=True, stdout=log, stderr=log, cwd=self.folder)

    def build(self, rows: pathlib.Path, leaf_records: int) -> None:
        """Makes the one segment from a CSV file, star-trees and all."""
        (self.folder / "schema.json").write_text(json.dumps(schema(), indent=1))
        (self.folder / "table.json").write_text(json.dumps(table(leaf_records), indent=1))
        built = self.folder / "segments"
        shutil.rmtree(built, ignore_errors=True)
        source = ["-dataDir", str(rows.parent), "-format", "CSV"]
        files = ["-schemaFile", "schema.json", "-tableConfigFile", "table.json"]
        self.run("CreateSegment", *source, *files, "-outDir", str(built), "-overwrite")

    def spawn(self, heap: str, *arguments: str) -> None:
        with (self.folder / "server.log").open("a") as log:
            command = self.command(heap, *arguments)
            self.processes.append(subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder))

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """ZooKeeper, and one process with controller, broker and server, without anything of an earlier run."""
        state = self.folder / "state"
        shutil.rmtree(state, ignore_errors=True)
        state.mkdir()
        try:
            zookeeper = f"127.0.0.1:{self.port + ZOOKEEPER}"
            keeper = ["-zkPort", str(self.port + ZOOKEEPER), "-dataDir", str(state / "zookeeper")]
            self.spawn("256m", "StartZookeeper", *keeper)
            self.await_(lambda: socket.create_connection(("127.0.0.1", self.port + ZOOKEEPER)).close())
            files = self.configure(state, zookeeper)
            service = ["StartServiceManager", "-zkAddress", zookeeper, "-clusterName", TABLE, "-port", "-1"]
            self.spawn(self.heap, *service, "-bootstrapConfigPaths", *files)
            for port in (CONTROLLER, BROKER):
                self.await_(lambda: self.request(port, "/health"))
            yield
        finally:
            for process in reversed(self.processes):
                process.kill()
                process.wait()

    def http(self, prefix: str, port: int) -> dict:
        """Keys that let a part listen for HTTP on this machine only."""
        listen = {"": "http", ".http.host": "127.0.0.1", ".http.port": self.port + port}
        return {f"{prefix}.access.protocols{key}": value for key, value in listen.items()}

    def configure(self, state: pathlib.Path, zookeeper: str) -> list[str]:
        parts = {
            "CONTROLLER": self.http("controller", CONTROLLER)
            | {
                "controller.host": "127.0.0.1",
                "controller.port": self.port + CONTROLLER,
                "controller.data.dir": state / "controller",
                "controller.zk.str": zookeeper,
                "controller.helix.cluster.name": TABLE,
            },
            "BROKER": self.http("pinot.broker.client", BROKER)
            | {"pinot.broker.hostname": "127.0.0.1", "pinot.broker.client.queryPort": self.port + BROKER},
            "SERVER": self.http("pinot.server.adminapi", ADMIN)
            | {
                "pinot.server.netty.host": "127.0.0.1",
                "pinot.server.netty.port": self.port + SERVER,
                "pinot.server.adminapi.port": self.port + ADMIN,
                "pinot.server.instance.dataDir": state / "server",
                "pinot.server.instance.segmentTarDir": state / "tars",
            },
        }
        files = []
        for role, keys in parts.items():
            file = state / f"{role.lower()}.conf"
            lines = {"pinot.service.role": role, "pinot.cluster.name": TABLE, "pinot.zk.server": zookeeper} | keys
            file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
            files.append(str(file))
        return files

    def request(self, port: int, path: str, body: dict | None = None) -> str:
        connection = http.client.HTTPConnection("127.0.0.1", self.port + port, timeout=60)
        with contextlib.closing(connection):
            method, text = ("GET", None) if body is None else ("POST", json.dumps(body))
            connection.request(method, path, text, {"Content-Type": "application/json"})
            response = connection.getresponse()
            text = response.read().decode()
        if response.status != 200:
            raise Refused(f"Pinot refuses `{path}`: {text}")
        return text

    def await_(self, attempt: Callable[[], object]) -> None:
        """Tries until a process listens."""
        for _ in range(600):
            with contextlib.suppress(OSError, Refused):
                attempt()
                return
            if any(process.poll() is not None for process in self.processes):
                break
            time.sleep(0.5)
        raise SystemExit(f"Pinot did not start: see `{self.folder}/server.log`")

    def load(self, rows: int) -> None:
        """Hands the segment over, and waits until all its rows are there."""
        for path, body in [("/schemas", schema()), ("/tables", json.loads((self.folder / "table.json").read_text()))]:
            self.request(CONTROLLER, path, body)
        host = ["-controllerHost", "127.0.0.1", "-controllerPort", str(self.port + CONTROLLER)]
        self.run("UploadSegment", *host, "-segmentDir", str(self.folder / "segments"), "-tableName", TABLE)
        for _ in range(1200):
            answer = self.query(f"SELECT count(*) FROM {TABLE}")
            if answer.get("resultTable", {}).get("rows") == [[rows]]:
                return
            time.sleep(0.5)
        raise SystemExit(f"Pinot has not {rows} rows after ten minutes: {answer}")

    def query(self, sql: str) -> dict:
        return json.loads(self.request(BROKER, "/query/sql", {"sql": sql}))

    def cpu_seconds(self) -> float:
        ticks = os.sysconf("SC_CLK_TCK")
        times = [self.proc(process, "stat").rsplit(")", 1)[1].split()[11:13] for process in self.processes]
        return sum(int(time) for pair in times for time in pair) / ticks

    def memory_bytes(self) -> int:
        """Proportional set size."""
        lines = [line for process in self.processes for line in self.proc(process, "smaps_rollup").splitlines()]
        return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))

    def proc(self, process: subprocess.Popen, file: str) -> str:
        return pathlib.Path(f"/proc/{process.pid}/{file}").read_text()
