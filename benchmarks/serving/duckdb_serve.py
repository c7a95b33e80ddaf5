"""Answers the SSB mix from cuboids in DuckDB, in this process, with one cursor for each of several threads.

usage: duckdb_serve.py NYALA_URL [--threads 1,8,32] [--seconds 10] [--nyala nyala]

The cuboids are copied from Nyala (cuboids.sql) into tables in memory, in the order of their first index. The
statements are those that `nyala bench ssb-postgres --print` draws.
"""

import argparse
import pathlib
import random
import resource
import subprocess
import tempfile
import threading
import time

import duckdb


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url", help="PostgreSQL URL of Nyala")
    parser.add_argument("--threads", default="1,8,32")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--nyala", default="nyala", help="the binary")
    return parser.parse_args()


def cuboids():
    """Name, columns of the indexes and SELECT of each cuboid."""
    text = pathlib.Path(__file__).with_name("cuboids.sql").read_text()
    for block in text.split("\n\n")[1:]:
        head, select = block.split("\n", 1)
        name, indexes = head.removeprefix("-- ").split(": ")
        yield name, indexes.split("; "), select.strip().rstrip(";")


def load(connection: duckdb.DuckDBPyConnection, nyala: str, url: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, indexes, select in cuboids():
            file = pathlib.Path(folder, f"{name}.csv")
            with file.open("w") as out:
                command = [nyala, "sql", "--url", url, "--format", "csv", "-c", select]
                subprocess.run(command, check=True, stdout=out)
            connection.execute(
                f"CREATE TABLE {name} AS SELECT * FROM read_csv('{file}', header = true) ORDER BY {indexes[0]}"
            )


def statements(nyala: str) -> list[str]:
    printed = subprocess.run(
        [nyala, "bench", "ssb-postgres", "--print", "20000"], check=True, capture_output=True, text=True
    )
    return [line.split("\t", 1)[1] for line in printed.stdout.splitlines()]


def worker(cursor, texts: list[str], seed: int, times: list[float], begin: float, end: float) -> None:
    draw = random.Random(seed)
    while (started := time.perf_counter()) < end:
        cursor.execute(draw.choice(texts)).fetchall()
        if started >= begin:
            times.append(time.perf_counter() - started)


def measure(connection, texts: list[str], threads: int, seconds: float) -> None:
    times: list[list[float]] = [[] for _ in range(threads)]
    begin = time.perf_counter() + 1
    end = begin + seconds
    workers = [
        threading.Thread(target=worker, args=(connection.cursor(), texts, seed, times[seed], begin, end))
        for seed in range(threads)
    ]
    for thread in workers:
        thread.start()
    time.sleep(max(0.0, begin - time.perf_counter()))
    cpu = resource.getrusage(resource.RUSAGE_SELF)
    for thread in workers:
        thread.join()
    after = resource.getrusage(resource.RUSAGE_SELF)
    elapsed = time.perf_counter() - begin
    every = sorted(time for list_ in times for time in list_)
    used = after.ru_utime + after.ru_stime - cpu.ru_utime - cpu.ru_stime
    quantile = lambda share: 1000 * every[min(len(every) - 1, int(share * len(every)))]
    print(
        f"{threads:>7} | {len(every):>8} | {len(every) / elapsed:>10.1f} | {1000 * sum(every) / len(every):>8.2f} | "
        f"{quantile(0.5):>7.2f} | {quantile(0.95):>7.2f} | {quantile(0.99):>7.2f} | {1000 * used / len(every):>6.2f}"
    )


def main() -> None:
    given = arguments()
    connection = duckdb.connect()
    load(connection, given.nyala, given.url)
    texts = statements(given.nyala)
    print(f"duckdb {duckdb.__version__}, {len(texts)} statements")
    print("threads |  handled | per second |  mean ms |     p50 |     p95 |     p99 | CPU ms")
    for threads in given.threads.split(","):
        measure(connection, texts, int(threads), given.seconds)


if __name__ == "__main__":
    main()
