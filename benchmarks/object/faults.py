"""What a query answers when the store fails, or the cache's disk does.

    python3 faults.py --nyala target/release/nyala --work /tmp/object [--disk-full]

For each fault of the lab, once and without end, with an empty cache: the query must give the right answer, or an error with
words, within the deadline of the configuration; and the right answer as soon as the fault is over. With --disk-full (as root),
also with the cache on a file system of 20 MB. Exits with 1 if an answer is wrong, a deadline passes, or words are missing.
"""

import argparse
import subprocess
import sys
import time

import lab

TIMEOUT_MS, RETRY_FOR_MS = 3000, 6000
# One request may be on its way when the time for repetitions is over.
DEADLINE_SECONDS = (TIMEOUT_MS + RETRY_FOR_MS) / 1000 + 3
WITHOUT_END = 1_000_000
KINDS = ["error", "slowdown", "close", "stall", "truncate", "short", "long"]


def arguments() -> argparse.Namespace:
    parser = lab.parser(__doc__)
    parser.add_argument("--disk-full", action="store_true", help="also with a full disk; mounts a file system")
    return parser.parse_args()


def ask(server: lab.Server, sql: str) -> tuple[list | None, str, float]:
    """The answer or the words of the error, and the seconds."""
    begun = time.perf_counter()
    try:
        found, words = lab.canonical(lab.Client(server.port, "ssb").ask(sql)[0]), ""
    except lab.QueryError as error:
        found, words = None, str(error).partition("\n")[0]
    return found, words, time.perf_counter() - begun


def check(name: str, server: lab.Server, sql: str, expected: list, may_fail: bool) -> bool:
    found, words, seconds = ask(server, sql)
    right = found == expected or (may_fail and found is None and "message" in words)
    right = right and seconds <= DEADLINE_SECONDS
    outcome = "right" if found == expected else words[:150] or "ANOTHER ANSWER"
    print(f"| {name} | {'yes' if right else 'NO'} | {seconds:.1f} s | {outcome} |", flush=True)
    return right


def store_faults(server: lab.Server, sql: str, expected: list) -> bool:
    held = True
    for kind in KINDS:
        for count in (1, WITHOUT_END):
            lab.Client(server.port).ask("DROP CACHE")
            lab.control("POST", f"/_fault?kind={kind}&count={count}&prefix=/lab/ssb/lineorder")
            many = count == WITHOUT_END
            # A body of the wrong length is never repeated: it cannot be told from a broken store.
            may_fail = many or kind in ("short", "long")
            held &= check(f"{kind}, {'without end' if many else 'once'}", server, sql, expected, may_fail)
            lab.control("POST", "/_heal")
            held &= check(f"after {kind}", server, sql, expected, False)
    return held


def main(chosen: argparse.Namespace) -> None:
    lab.control("POST", "/_heal")
    lab.prepare(chosen.nyala, chosen.work, "ssb")
    sql = lab.queries("ssb")["1.1"]
    local = lab.Server(chosen.nyala, chosen.work, "faults-local", str(lab.store_folder(chosen.work)), chosen.port, None).start()
    local.create_tables("ssb")
    expected = ask(local, sql)[0]
    local.stop()

    server = lab.Server(chosen.nyala, chosen.work, "faults", lab.BUCKET, chosen.port, {})
    config = server.config.read_text()
    keys = f"[storage]\ntimeout_ms = {TIMEOUT_MS}\nretry_for_ms = {RETRY_FOR_MS}\n[storage.s3]\n"
    server.config.write_text(config.replace("[storage.s3]\n", keys))
    print(f"| fault | holds | took, at most {DEADLINE_SECONDS:.0f} s | answer |\n|---|---|---:|---|")
    server.start(empty_cache=True)
    server.create_tables("ssb")
    held = store_faults(server, sql, expected)
    server.stop()
    if chosen.disk_full:
        server.cache_folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", server.cache_folder], check=True)
        try:
            server.start()
            for number in range(3):
                held &= check(f"cache on a full disk, {number + 1}", server, sql, expected, False)
            server.stop()
        finally:
            subprocess.run(["umount", server.cache_folder], check=True)
    sys.exit(not held)


if __name__ == "__main__":
    chosen = arguments()
    lab.up(chosen.work)
    try:
        main(chosen)
    finally:
        lab.control("POST", "/_heal")
        lab.stop_all()
