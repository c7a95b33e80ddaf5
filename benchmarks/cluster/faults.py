"""Faults of nodes, of the ways between them, of the bucket and of the catalog's database under streams of TPC-DS queries.

    faults.py --queries FILE [--streams 32] [--rounds 20] [--kinds kill,stop,…] [--scale 1] [--divide-all]

FILE is a JSON object of texts by number. Each round makes one fault, asserts that it had an effect, and heals it. Reported are queries
that failed or gave another answer than one node alone, the longest query, and what is left on the nodes afterwards. Kinds: kill, stop,
partition, slow, bucket, postgres, and with root's rights disk, with the package faketime clock.
"""

import collections
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import nodes
from nodes import lab
from streams import OwnOrder, Stream, answers_of_one, memory_of, threads_of


def state_of(cluster: nodes.Cluster, name: str) -> str | None:
    found = nodes.rows(cluster.coordinators[0], f"SELECT state FROM system.nodes WHERE node = '{name}'")
    return found[0][0] if found else None


def name_of(node: lab.Server) -> str:
    return nodes.rows(node, "SELECT node FROM system.local_queries LIMIT 1")[0][0]


def wait(what: str, within: float, holds) -> float:
    begun = time.monotonic()
    while not holds():
        if time.monotonic() - begun > within:
            sys.exit(f"{what}: not within {within} s")
        time.sleep(0.2)
    return time.monotonic() - begun


def kill(cluster: nodes.Cluster, node: lab.Server) -> dict:
    name = name_of(node)
    node.stop(signal.SIGKILL)
    found = wait("the killed node is silent", 30, lambda: state_of(cluster, name) == "silent")
    node.start()
    wait("the killed node is back", 60, lambda: state_of(cluster, name) == "serving")
    return {"found_s": round(found, 1)}


def stop(cluster: nodes.Cluster, node: lab.Server) -> dict:
    name = name_of(node)
    node.process.send_signal(signal.SIGSTOP)
    found = wait("the stopped node is silent", 30, lambda: state_of(cluster, name) == "silent")
    time.sleep(3)
    node.process.send_signal(signal.SIGCONT)
    wait("the stopped node is back", 60, lambda: state_of(cluster, name) == "serving")
    return {"found_s": round(found, 1)}


def partition(cluster: nodes.Cluster, node: lab.Server) -> dict:
    """No other node reaches this one, which goes on telling that it lives; its own connections to others stay."""
    link = cluster.links[node.folder.name]
    # A connection that no query uses is not found broken before one does.
    wait("the node does a part", 120, lambda: parts_of(node) > 0)
    before = broken_connections(cluster)
    link.cut()
    # Seen by the nodes that had a connection: they find it broken. If the part ended just before, one must be sent first, and on a
    # busy machine that takes a while.
    found = wait("the cut connection is found", 180, lambda: broken_connections(cluster) > before)
    time.sleep(3)
    link.heal()
    passed = link.passed
    wait("the node does parts again", 60, lambda: link.passed > passed)
    return {"found_s": round(found, 1)}


def slow(cluster: nodes.Cluster, node: lab.Server) -> dict:
    link = cluster.links[node.folder.name]
    passed = link.passed
    link.slow_down(2_000_000)
    time.sleep(6)
    if link.passed == passed:
        sys.exit("nothing went over the slow link")
    link.heal()
    return {}


def bucket(cluster: nodes.Cluster, _: lab.Server) -> dict:
    """The bucket answers with errors while the caches are empty."""
    for executor in cluster.executors:
        lab.Client(executor.port).ask("DROP CACHE")
    before = lab.requests(lab.counters(settle=False))
    lab.control("POST", "/_fault?kind=error&count=20&prefix=/lab/tpcds")
    time.sleep(5)
    lab.control("POST", "/_heal")
    if lab.requests(lab.counters(settle=False)) == before:
        sys.exit("the bucket was not asked")
    return {}


def broken_connections(cluster: nodes.Cluster) -> int:
    """How often a coordinator has found a connection to a node broken."""
    return sum(count_lines(node, "gets no parts of queries for a while") for node in cluster.coordinators)


def count_lines(node: lab.Server, words: str) -> int:
    return (node.folder / "log").read_text(errors="replace").count(words)


def postgres(cluster: nodes.Cluster, _: lab.Server) -> dict:
    cluster.postgres.stop()
    try:
        lab.Client(cluster.coordinators[0].port).ask("CREATE SCHEMA while_away")
        sys.exit("a change was made while the database was away")
    except lab.QueryError:
        pass
    time.sleep(3)
    cluster.postgres.start(empty=False)
    wait("a change", 60, lambda: changed(cluster))
    return {}


def clock(cluster: nodes.Cluster, node: lab.Server) -> dict:
    """The clock of a node jumps by eight minutes and back: more than any lease, and less than a store of objects refuses."""
    told = lambda: float(nodes.rows(node, "SELECT extract(epoch FROM now())")[0][0]) - time.time()  # noqa: E731
    for seconds in (480, -480):
        clock_file(node).write_text(f"{seconds:+d}s\n")
        wait("the clock has jumped", 10, lambda: abs(told() - seconds) < 60)
        time.sleep(3)
        clock_file(node).write_text("+0s\n")
        wait("the clock is right again", 10, lambda: abs(told()) < 60)
    return {}


def clock_file(node: lab.Server) -> pathlib.Path:
    return node.folder / "clock"


def disk(cluster: nodes.Cluster, node: lab.Server) -> dict:
    """No byte can be written to the disk of a node's block cache, which is empty."""
    lab.Client(node.port).ask("DROP CACHE")
    filler = node.cache_folder / ".filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1 << 16))
        except OSError:
            pass
    before = lab.requests(lab.counters(settle=False))
    time.sleep(5)
    if os.statvfs(node.cache_folder).f_bavail > 16:
        sys.exit("the disk is not full")
    if lab.requests(lab.counters(settle=False)) == before:
        sys.exit("the bucket was not asked")
    filler.unlink()
    return {}


def small_disks(cluster: nodes.Cluster) -> None:
    """Gives the block cache of each executor a file system of its own, in memory."""
    for node in cluster.executors:
        node.cache_folder.mkdir(exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=500m", "nyala-lab", node.cache_folder], check=True)


def unmount(cluster: nodes.Cluster) -> None:
    for node in cluster.executors:
        subprocess.run(["umount", "--lazy", node.cache_folder], stderr=subprocess.DEVNULL)


def own_clocks(cluster: nodes.Cluster) -> None:
    """Gives each executor a clock that a file sets."""
    library = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"
    if not pathlib.Path(library).exists():
        sys.exit("the kind clock needs the package faketime")
    for node in cluster.executors:
        clock_file(node).write_text("+0s\n")
        node.environment = {
            "LD_PRELOAD": library,
            "FAKETIME_TIMESTAMP_FILE": str(clock_file(node)),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }


def changed(cluster: nodes.Cluster) -> bool:
    try:
        lab.Client(cluster.coordinators[0].port).ask("CREATE SCHEMA IF NOT EXISTS back_again")
        return True
    except lab.QueryError:
        return False


KINDS = {
    "kill": kill,
    "stop": stop,
    "partition": partition,
    "slow": slow,
    "bucket": bucket,
    "postgres": postgres,
    "disk": disk,
    "clock": clock,
}


def parts_of(node: lab.Server) -> int:
    """Parts of other nodes' queries that this one does."""
    sql = "SELECT count(*) FROM system.local_queries WHERE sent_by IS NOT NULL"
    return int(nodes.rows(node, sql)[0][0])


def measure(cluster: nodes.Cluster, kind: str, options, queries, expected) -> dict:
    ports = [node.port for node in cluster.coordinators]
    orders = [OwnOrder(i, queries, float("inf")) for i in range(options.streams)]
    streams = [Stream(ports[i % 2], queries, expected, order) for i, order in enumerate(orders)]
    for stream in streams:
        stream.start()
    try:
        time.sleep(5)
        before = {node.folder.name: (threads_of(node), memory_of(node)) for node in cluster.nodes}
        found = []
        for number in range(options.rounds):
            found.append(KINDS[kind](cluster, random.choice(cluster.executors)))
            print(f"{kind} {number + 1}: {found[-1]}", file=sys.stderr, flush=True)
            time.sleep(2)
    finally:
        # Also when a round fails: streams would ask nodes that are gone for ever.
        for order in orders:
            order.until = 0
    for stream in streams:
        stream.join()
    left = wait("all parts have ended", 30, lambda: not any(parts_of(node) for node in cluster.executors))
    failures = [failure for stream in streams for failure in stream.failures]
    times = [took for stream in streams for _, took in stream.done]
    return {
        "fault": kind,
        "rounds": options.rounds,
        "queries": len(times),
        "failed": len(failures),
        "failures": collections.Counter(failure.split(": ", 1)[1] for failure in failures).most_common(6),
        "longest_s": round(max(times) / 1000, 1),
        "found_s": max((one["found_s"] for one in found if one), default=None),
        "parts_gone_after_s": round(left, 1),
        "threads_and_mb_before": before,
        "threads_and_mb_after": {node.folder.name: (threads_of(node), memory_of(node)) for node in cluster.nodes},
    }


def main() -> None:
    arguments = nodes.parser(__doc__)
    arguments.add_argument("--queries", required=True, type=pathlib.Path)
    arguments.add_argument("--streams", type=int, default=32)
    arguments.add_argument("--rounds", type=int, default=20)
    arguments.add_argument("--kinds", default="kill,stop,partition,slow,bucket,postgres")
    arguments.add_argument("--scale", default="1")
    arguments.add_argument("--divide-all", action="store_true", help="divide also queries over few rows")
    options = arguments.parse_args()
    nodes.stop_on_signals()
    lab.up(options.work)
    lab.prepare(options.nyala, options.work, "tpcds", options.scale)
    queries = json.loads(options.queries.read_text())
    cluster = nodes.Cluster(
        options.nyala, options.work, 2, 3, options.port, through_links=True, single_node_rows=1 if options.divide_all else None
    )
    kinds = options.kinds.split(",")
    if "clock" in kinds:
        own_clocks(cluster)
    if "disk" in kinds:
        small_disks(cluster)
    try:
        cluster.start()
        cluster.create_tables("tpcds")
        expected = answers_of_one(cluster.executors[0], queries)
        for kind in kinds:
            print(json.dumps(measure(cluster, kind, options, queries, expected)), flush=True)
    finally:
        cluster.stop()
        unmount(cluster)


if __name__ == "__main__":
    sys.exit(main())
