"""What is left of queries whose clients go away.

    cancels.py --queries FILE [--cancels 10000] [--clients 64] [--scale 1]

Each client sends a query and closes its connection after at most 150 ms. One second after the last of them, the parts of queries, slots,
and threads of all nodes are looked at.
"""

import json
import pathlib
import random
import socket
import sys
import threading
import time

import nodes
from faults import parts_of
from nodes import lab
from streams import memory_of, threads_of


def cancel(port: int, sql: str, after: float) -> None:
    body = json.dumps({"sql": sql, "settings": {"search_path": "tpcds"}}).encode()
    head = f"POST /api/v1/query HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(head.encode() + body)
        time.sleep(after)


def client(number: int, count: int, ports: list[int], texts: list[str]) -> None:
    chance = random.Random(number)
    for _ in range(count):
        cancel(chance.choice(ports), chance.choice(texts), chance.uniform(0, 0.15))


def running(node: lab.Server) -> int:
    return int(nodes.rows(node, "SELECT count(*) - 1 FROM system.local_queries")[0][0])


def main() -> None:
    arguments = nodes.parser(__doc__)
    arguments.add_argument("--queries", required=True, type=pathlib.Path)
    arguments.add_argument("--cancels", type=int, default=10_000)
    arguments.add_argument("--clients", type=int, default=64)
    arguments.add_argument("--scale", default="1")
    options = arguments.parse_args()
    nodes.stop_on_signals()
    lab.up(options.work)
    lab.prepare(options.nyala, options.work, "tpcds", options.scale)
    texts = list(json.loads(options.queries.read_text()).values())
    cluster = nodes.Cluster(options.nyala, options.work, 2, 3, options.port)
    try:
        cluster.start()
        cluster.create_tables("tpcds")
        ports = [node.port for node in cluster.coordinators]
        for sql in texts[:20]:
            lab.Client(ports[0], "tpcds").ask(sql)
        before = {node.folder.name: (threads_of(node), memory_of(node)) for node in cluster.nodes}
        each = options.cancels // options.clients
        clients = [threading.Thread(target=client, args=(i, each, ports, texts)) for i in range(options.clients)]
        begun = time.monotonic()
        for one in clients:
            one.start()
        for one in clients:
            one.join()
        took, gone = time.monotonic() - begun, None
        ended = time.monotonic()
        while time.monotonic() - ended < 30:
            if not any(parts_of(node) for node in cluster.executors) and not any(running(node) for node in cluster.nodes):
                gone = round(time.monotonic() - ended, 2)
                break
            time.sleep(0.05)
        print(
            json.dumps(
                {
                    "cancels": each * options.clients,
                    "took_s": round(took, 1),
                    "all_gone_after_s": gone,
                    "threads_and_mb_before": before,
                    "threads_and_mb_after": {
                        node.folder.name: (threads_of(node), memory_of(node)) for node in cluster.nodes
                    },
                }
            )
        )
    finally:
        cluster.stop()


if __name__ == "__main__":
    sys.exit(main())
