"""Measures how planning grows with the number of cubes over one fact table.

usage: many_cubes.py [--nyala nyala] [--cubes 3,30,300] [--rounds 5]

Each number of cubes has a server of its own; all run at once, and are asked in turns, so that whatever else the machine
does meets each alike. They keep no ready plans, so that every query is planned. Planning times are those that the server
records in system.query_log; the lower quartile of a round is divided by that of the server with fewest cubes in the same
round. Only the standard library is used.
"""

import argparse
import http.client
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

DIMENSIONS = [f"d{n}" for n in range(12)]
MEASURES = ["sum(x)", "sum(y)", "min(x)", "max(y)", "avg(x)", "count(DISTINCT x)", "sum(x * y)"]
QUERIES_A_ROUND = 40

QUERIES = {
    "hit, one table": "SELECT d0, sum(x) FROM f GROUP BY d0",
    "hit, two tables": "SELECT name, sum(x), count(*) FROM f JOIN l ON d1 = id WHERE d0 = 3 GROUP BY name",
    "miss, no dimension": "SELECT z, sum(x) FROM f GROUP BY z",
    "miss, no measure": "SELECT d0, stddev(y) FROM f GROUP BY d0",
    "miss, an expression": "SELECT d0 + d1, sum(x + z) FROM f JOIN l ON d1 = id GROUP BY d0 + d1",
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nyala", default="nyala", help="the binary")
    parser.add_argument("--cubes", default="3,30,300")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--port", type=int, default=18190)
    return parser.parse_args()


def cubes(number: int):
    """CREATE CUBE statements: the first two answer the hits, the others have other sets, measures and joins."""
    yield "CREATE CUBE c0 AS SELECT d0, d2, sum(x), count(*) FROM f GROUP BY CUBE (d0, d2)"
    yield "CREATE CUBE c1 AS SELECT d0, name, sum(x), count(*) FROM f JOIN l ON d1 = id GROUP BY CUBE (d0, name)"
    pairs = itertools.cycle(itertools.combinations(DIMENSIONS, 3))
    for n in range(2, number):
        dimensions, measure = ", ".join(next(pairs)), MEASURES[n % len(MEASURES)]
        if n % 3 == 0:
            tables, dimensions = "f JOIN l ON d1 = id", f"{dimensions}, name"
        else:
            tables = "f"
        # Some have all that the first query needs, in larger cuboids.
        more = ", sum(x)" if n % 5 == 0 and measure != "sum(x)" else ""
        yield f"CREATE CUBE c{n} AS SELECT {dimensions}, {measure}{more}, count(*) FROM {tables} GROUP BY {dimensions}"


class Server:
    def __init__(self, binary: str, number: int, port: int, folder: pathlib.Path):
        self.number, self.data = number, folder / f"data-{number}"
        tables = folder / f"tables-{number}"
        command = [binary, "serve", "--data-dir", self.data]
        command += ["--http-listen", f"127.0.0.1:{port}", "--postgres-listen", f"127.0.0.1:{port + 500}"]
        self.log = open(folder / f"log-{number}", "w")
        environment = {**os.environ, "NYALA_CACHE__PLANS_BYTES": "0"}
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, env=environment)
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
        self.wait()
        self.fill(tables)

    def wait(self) -> None:
        for _ in range(600):
            try:
                return self.run("SELECT 1") and None
            except OSError:
                self.connection.close()
                time.sleep(0.1)
        raise RuntimeError("the server does not answer")

    def run(self, sql: str) -> list:
        body = json.dumps({"sql": sql})
        self.connection.request("POST", "/api/v1/query", body, {"content-type": "application/json"})
        answer = self.connection.getresponse()
        text = answer.read().decode()
        if answer.status != 200:
            raise RuntimeError(f"{sql}\n{text}")
        return json.loads(text).get("rows", [])

    def fill(self, tables: pathlib.Path) -> None:
        """Tables as CSV files: 2,000 rows are enough, since no query's time to run is counted."""
        for name, lines in {"f": facts(), "l": lookup()}.items():
            (tables / name).mkdir(parents=True)
            (tables / name / "part.csv").write_text("\n".join(lines) + "\n")
            create = f"CREATE EXTERNAL TABLE {name} STORED AS CSV LOCATION '{tables / name}/' OPTIONS ('format.has_header' 'true')"
            self.run(create)
        for n, create in enumerate(cubes(self.number)):
            self.run(create)
            self.run(f"BUILD CUBE c{n}")

    def round(self, query: str) -> float:
        """Milliseconds of planning a query, lower quartile."""
        # The server may have closed it while others were asked; the next request opens another one.
        self.connection.close()
        for _ in range(QUERIES_A_ROUND):
            self.run(query)
        quoted = query.replace("'", "''")
        rows = self.run(
            "SELECT planning_us, ready_plan FROM system.query_log "
            f"WHERE query = '{quoted}' ORDER BY query_id DESC LIMIT {QUERIES_A_ROUND}"
        )
        assert len(rows) >= QUERIES_A_ROUND // 2 and not any(ready for _, ready in rows), rows
        return statistics.quantiles((us for us, _ in rows), n=4)[0] / 1000

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()


def facts():
    yield ",".join([*DIMENSIONS, "x", "y", "z"])
    for n in range(2000):
        dimensions = [(n * 7 + n // (k + 2)) % (5 + k) for k in range(len(DIMENSIONS))]
        yield ",".join(str(value) for value in [*dimensions, n % 97, n % 31, n])


def lookup():
    yield "id,name"
    yield from (f"{n},name {n % 3}" for n in range(6))


def main() -> None:
    chosen = arguments()
    numbers = [int(text) for text in chosen.cubes.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        servers = []
        try:
            for place, number in enumerate(numbers):
                servers.append(Server(chosen.nyala, number, chosen.port + place, pathlib.Path(folder)))
            measure(servers, chosen.rounds)
        finally:
            for server in servers:
                server.stop()


def measure(servers: list, rounds: int) -> None:
    print("| query | " + " | ".join(f"{server.number} cubes, ms" for server in servers) + " | largest by smallest |")
    print("|---|" + "---|" * (len(servers) + 1))
    for name, query in QUERIES.items():
        times, ratios = {server.number: [] for server in servers}, []
        for _ in range(rounds):
            for server in servers:
                times[server.number].append(server.round(query))
            ratios.append(times[servers[-1].number][-1] / times[servers[0].number][-1])
        shown = " | ".join(f"{statistics.median(times[server.number]):.2f}" for server in servers)
        print(f"| {name} | {shown} | {statistics.median(ratios):.2f} |", flush=True)


if __name__ == "__main__":
    main()
