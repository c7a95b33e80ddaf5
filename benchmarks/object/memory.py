"""Memory of a server that reads through the cache, beside that of a server over local files with the same queries.

    python3 memory.py --nyala target/release/nyala --work /tmp/object [--memory-bytes 0 268435456] [--passes 2] [--runs 3]

Each server is started anew, with an empty cache, and answers all queries of SSB and TPC-H in order, from one client, a few times; then
four clients ask all of them at once. The peak of its resident memory may be above that of local files by the bytes in memory that the cache is
given, and 64 MiB. Peaks are medians over the runs. Exits with 1 if one is more.
"""

import argparse
import pathlib
import statistics
import sys
import threading

import lab

BOUND_BYTES = 64 << 20
CLIENTS = 4
BENCHMARKS = ("ssb", "tpch")


def arguments() -> argparse.Namespace:
    parser = lab.parser(__doc__)
    parser.add_argument("--memory-bytes", type=int, nargs="+", default=[0, 256 << 20])
    parser.add_argument("--passes", type=int, default=2)
    parser.add_argument("--runs", type=int, default=3)
    return parser.parse_args()


def ask_all(port: int) -> None:
    for benchmark in BENCHMARKS:
        client = lab.Client(port, benchmark)
        for sql in lab.queries(benchmark).values():
            client.ask(sql)


def peak_bytes(server: lab.Server, passes: int) -> int:
    """The most resident memory that the process has had, after all queries."""
    server.start(empty_cache=True)
    for benchmark in BENCHMARKS:
        server.create_tables(benchmark)
    for _ in range(passes):
        ask_all(server.port)
    clients = [threading.Thread(target=ask_all, args=(server.port,)) for _ in range(CLIENTS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    server.stop()
    return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmHWM"))


def main() -> None:
    chosen = arguments()
    lab.up(chosen.work)
    for benchmark in BENCHMARKS:
        lab.prepare(chosen.nyala, chosen.work, benchmark)
    local = lab.Server(chosen.nyala, chosen.work, "memory-local", str(lab.store_folder(chosen.work)), chosen.port, None)
    servers = {"local files": (local, None)}
    for given in chosen.memory_bytes:
        name = f"memory-{given}"
        server = lab.Server(chosen.nyala, chosen.work, name, lab.BUCKET, chosen.port, {"memory_bytes": given, "disk_bytes": 10 << 30})
        servers[f"cache, {given >> 20} MiB in memory"] = (server, given)
    peaks = {name: [] for name in servers}
    for _ in range(chosen.runs):
        for name, (server, _) in servers.items():
            peaks[name].append(peak_bytes(server, chosen.passes))
    medians = {name: statistics.median(found) for name, found in peaks.items()}
    held = True
    print("| server | peak, MiB | of the runs | above local files | at most |\n|---|---:|---|---:|---:|")
    for name, (_, given) in servers.items():
        runs = ", ".join(f"{found >> 20}" for found in peaks[name])
        above = medians[name] - medians["local files"]
        bound = "" if given is None else f"{(given + BOUND_BYTES) >> 20}"
        print(f"| {name} | {medians[name] / (1 << 20):.0f} | {runs} | {above / (1 << 20):.0f} | {bound} |", flush=True)
        held &= given is None or above <= given + BOUND_BYTES
    sys.exit(0 if held else 1)


if __name__ == "__main__":
    try:
        main()
    finally:
        lab.stop_all()
