"""What dashboards fetch from the store alone, and while a table twice the size of the cache is scanned beside them.

    python3 scan.py --nyala target/release/nyala --work /tmp/object [--passes 5] [--cache-bytes 0]

Dashboards are SSB's 13 queries on the tables, again and again. Without --cache-bytes the cache gets half as much again as their
blocks occupy in an empty one. The scanned table `wide` has the objects of TPC-H's lineitem under as many names as make it twice the
size of the cache; one query reads all its columns, and is repeated as long as the dashboards run. The ratio of hits is the part of
the dashboards' blocks that a pass does not fetch; beside the scan it may be 2 points less than alone. Exits with 1 if it is more.
"""

import argparse
import os
import pathlib
import shutil
import statistics
import sys
import threading
import time

import lab

NUMBERS = "orderkey partkey suppkey linenumber quantity extendedprice discount tax"
TEXTS = "returnflag linestatus shipinstruct shipmode comment"
DATES = "shipdate commitdate receiptdate"
# Functions of values: statistics of the files would answer max and min of the columns themselves.
VALUES = [f"sum(l_{column})" for column in NUMBERS.split()]
VALUES += [f"sum(length(l_{column}))" for column in TEXTS.split()]
VALUES += [f"sum(extract(day FROM l_{column}))" for column in DATES.split()]
SCAN = f"SELECT {', '.join(VALUES)} FROM wide"
DASHBOARDS, WIDE = "/lab/ssb/", "/lab/wide/"
BOUND_POINTS = 2.0


def arguments() -> argparse.Namespace:
    parser = lab.parser(__doc__)
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--cache-bytes", type=int, default=0, help="0: half as much again as the dashboards need")
    return parser.parse_args()


def server(chosen: argparse.Namespace, disk_bytes: int) -> lab.Server:
    return lab.Server(chosen.nyala, chosen.work, "scan", lab.BUCKET, chosen.port, {"enabled": True, "disk_bytes": disk_bytes})


def make_wide(work: pathlib.Path, size: int) -> int:
    """Objects of `wide`, at least so many bytes: names of the same files, so that they take no disk. Gives their bytes."""
    folder = lab.store_folder(work) / "wide"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    made = 0
    while made < size:
        for file in sorted((lab.store_folder(work) / "tpch" / "lineitem").glob("*.parquet")):
            if made < size:
                os.link(file, folder / f"part-{made:015}.parquet")
                made += file.stat().st_size
    return made


def dashboards(client: lab.Client) -> tuple[int, float, int]:
    """Bytes of the dashboards' objects that one pass fetched, its seconds, and the bytes that the scan fetched meanwhile."""
    lab.reset()
    begun = time.perf_counter()
    for sql in lab.queries("ssb").values():
        client.ask(sql)
    seconds = time.perf_counter() - begun
    # The scan goes on, so that there may be no moment without an open request.
    counted = lab.counters(settle=False)
    return lab.get_bytes(counted, DASHBOARDS), seconds, lab.get_bytes(counted, WIDE)


class Scan(threading.Thread):
    """Scans the wide table until it is told to stop."""

    def __init__(self, port: int):
        super().__init__(daemon=True)
        self.client, self.scans, self.ending, self.once = lab.Client(port), 0, threading.Event(), threading.Event()
        self.failed: Exception | None = None

    def run(self) -> None:
        try:
            while not self.ending.is_set():
                self.client.ask(SCAN)
                self.scans += 1
                self.once.set()
        except Exception as error:
            self.failed = error
            self.once.set()


def blocks_of_dashboards(chosen: argparse.Namespace) -> tuple[int, int]:
    """Bytes that a pass with an empty, large cache fetches, and bytes that are in the folder of the cache then."""
    first = server(chosen, 10 << 30).start(empty_cache=True)
    first.create_tables("ssb")
    first.stop()
    first.start(empty_cache=True)
    fetched, _, _ = dashboards(lab.Client(first.port, "ssb"))
    lab.counters()
    time.sleep(1)  # Blocks may be written behind the answers.
    kept = sum(file.stat().st_size for file in first.cache_folder.rglob("*") if file.is_file())
    first.stop()
    return fetched, kept


def print_passes(name: str, passes: list[tuple[int, float, int]], whole: int) -> float:
    """Prints a line of the table; gives the ratio of hits in per cent."""
    fetched, seconds, scanned = (statistics.mean(values) for values in zip(*passes, strict=True))
    hits = 100 * (1 - fetched / whole)
    print(f"| {name} | {fetched / 1e6:.2f} | {hits:.2f} % | {seconds:.2f} | {scanned / 1e6:.1f} |", flush=True)
    return hits


def measure(chosen: argparse.Namespace) -> bool:
    whole, kept = blocks_of_dashboards(chosen)
    disk_bytes = chosen.cache_bytes or int(kept * 1.5)
    if not disk_bytes:
        sys.exit("nothing is in the folder of the cache: give --cache-bytes")
    wide = make_wide(chosen.work, 2 * disk_bytes)
    print(f"a pass of dashboards fetches {whole / 1e6:.1f} MB into an empty cache, which has {kept / 1e6:.1f} MB then")
    print(f"cache {disk_bytes / 1e6:.1f} MB, scanned table {wide / 1e6:.1f} MB\n")
    small = server(chosen, disk_bytes).start(empty_cache=True)
    lab.Client(small.port).ask("DROP TABLE IF EXISTS wide")
    lab.Client(small.port).ask(f"CREATE EXTERNAL TABLE wide STORED AS PARQUET LOCATION '{lab.BUCKET}/wide/'")
    client = lab.Client(small.port, "ssb")
    for _ in range(3):
        dashboards(client)
    print("| dashboards | MB a pass from the store | hits | seconds a pass | MB of the scan meanwhile |\n|---|---:|---:|---:|---:|")
    alone = print_passes("alone", [dashboards(client) for _ in range(chosen.passes)], whole)
    scan = Scan(small.port)
    scan.start()
    scan.once.wait()
    scans, begun = scan.scans, time.perf_counter()
    beside = print_passes("beside the scan", [dashboards(client) for _ in range(chosen.passes)], whole)
    scans, seconds = scan.scans - scans, time.perf_counter() - begun
    scan.ending.set()
    scan.join()
    after = print_passes("after it", [dashboards(client) for _ in range(chosen.passes)], whole)
    small.stop()
    if scan.failed:
        raise scan.failed
    print(f"\n{scan.scans} scans, {scans} of them ended in the {seconds:.0f} s beside dashboards")
    points = alone - min(beside, after)
    print(f"hits lost: {points:.2f} points, at most {BOUND_POINTS}: {'yes' if points <= BOUND_POINTS else 'NO'}")
    return points <= BOUND_POINTS


def main() -> None:
    chosen = arguments()
    lab.up(chosen.work)
    for benchmark in ("ssb", "tpch"):
        lab.prepare(chosen.nyala, chosen.work, benchmark)
    try:
        held = measure(chosen)
    finally:
        lab.stop_all()
    sys.exit(0 if held else 1)


if __name__ == "__main__":
    main()
