"""Compares servers that `nyala bench --json` measured with the same clients: a table in Markdown.

usage: ratios.py FIRST.json OTHER.json…

The last column is how many times the throughput of each the first one reached.
"""

import json
import pathlib
import sys

MEASURED = ["queries/s", "mean ms", "p99 ms", "errors", "server CPU ms", "client cores", "server MB"]
HEADER = ["server", "clients", *MEASURED, "ratio"]


def runs(path: pathlib.Path) -> dict[int, dict]:
    return {run["clients"]: run for run in json.loads(path.read_text())["runs"]}


def cells(name: str, run: dict, first: dict) -> list[str]:
    total, cost = run["total"], run["cost"]
    number = lambda value, digits: "" if value is None else f"{value:,.{digits}f}"
    memory = cost["server_memory_bytes"]
    return [
        name,
        f"{run['clients']}",
        number(run["per_second"], 0),
        number(total["mean_ms"], 1),
        number(total["p99_ms"], 1),
        f"{total['errors'] + total['unfinished']}",
        number(cost["server_cpu_ms_per_query"], 3),
        number(cost["client_cores"], 2),
        number(memory and memory / 1e6, 0),
        number(first["per_second"] / run["per_second"], 1),
    ]


def main() -> None:
    if len(sys.argv) < 3:
        sys.exit(next(line for line in __doc__.splitlines() if line.startswith("usage")))
    paths = [pathlib.Path(argument) for argument in sys.argv[1:]]
    measured = [(path.stem, runs(path)) for path in paths]
    print(f"| {' | '.join(HEADER)} |\n|{'---|' * len(HEADER)}")
    for clients, first in measured[0][1].items():
        for name, of in measured:
            if clients in of:
                print(f"| {' | '.join(cells(name, of[clients], first))} |")


if __name__ == "__main__":
    main()
