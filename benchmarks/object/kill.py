"""Answers through the cache while the server is killed and bits of its files are flipped, beside those of local files.

    python3 kill.py --nyala target/release/nyala --work /tmp/object [--kills 5] [--bits 1000] [--clients 4]

First a server over local files answers all queries of SSB and TPC-H. Then clients ask a server over the store, through the
cache, the same queries in random order, without a pause: meanwhile it is ended by SIGKILL and started again, and bits of files
in the cache's folder are flipped, half of them while it runs and half while it is down. A client that loses its connection to
a kill asks on; everything else that is not the right answer is counted and printed. At the end the server is started once
more, and two passes of SSB tell how many bytes still come from the store. Exits with 1 after a wrong answer or an error.
"""

import argparse
import http.client
import pathlib
import random
import signal
import sys
import threading
import time

import lab

Query = tuple[str, str]  # benchmark and name


def arguments() -> argparse.Namespace:
    parser = lab.parser(__doc__)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--bits", type=int, default=1000)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


class Load:
    """Clients that ask random queries and compare each answer."""

    def __init__(self, port: int, clients: int, seed: int, expected: dict[Query, list]):
        self.port, self.expected = port, expected
        self.texts = {(name, query): sql for name in ("ssb", "tpch") for query, sql in lab.queries(name).items()}
        self.up, self.ending = threading.Event(), threading.Event()
        self.generation = 0  # of the server's process
        self.right = self.lost = 0
        self.wrong: list[str] = []
        self.mutex = threading.Lock()
        self.threads = [threading.Thread(target=self.client, args=(seed + n,), daemon=True) for n in range(clients)]

    def client(self, seed: int) -> None:
        dice, asked = random.Random(seed), sorted(self.texts)
        generation = -1
        while not self.ending.is_set():
            self.up.wait()
            if generation != self.generation:
                generation = self.generation
                clients = {name: lab.Client(self.port, name) for name in ("ssb", "tpch")}
            query = dice.choice(asked)
            outcome = self.ask(clients[query[0]], query, generation)
            with self.mutex:
                self.right += outcome is None
                self.lost += outcome == "lost"
                if outcome not in (None, "lost"):
                    self.wrong.append(f"{' '.join(query)}: {outcome}")

    def ask(self, client: lab.Client, query: Query, generation: int) -> str | None:
        """What is wrong with the answer, `lost` if a kill took it, None if it is right."""
        try:
            content, _ = client.ask(self.texts[query])
            return None if lab.canonical(content) == self.expected[query] else "another answer"
        except lab.QueryError as error:
            return str(error).partition("\n")[0]
        except (OSError, http.client.HTTPException) as error:
            return f"connection lost: {error!r}" if generation == self.generation else "lost"


def flip(folder: pathlib.Path, bits: int, dice: random.Random) -> int:
    """Flips so many bits, each at a random place of all bytes in the folder; gives how many there were."""
    files = [(file, file.stat().st_size) for file in sorted(folder.rglob("*")) if file.is_file()]
    files = [(file, size) for file, size in files if size]
    flipped = 0
    for file, size in dice.choices(files, weights=[size for _, size in files], k=bits) if files else []:
        try:
            with open(file, "r+b", buffering=0) as block:
                place = dice.randrange(size)
                block.seek(place)
                byte = block.read(1)
                block.seek(place)
                flipped += block.write(bytes([byte[0] ^ 1 << dice.randrange(8)])) if byte else 0
        except FileNotFoundError:
            pass  # The cache has removed it meanwhile.
    return flipped


def pass_of_ssb(server: lab.Server) -> int:
    """Bytes of objects that all queries together fetched."""
    client = lab.Client(server.port, "ssb")
    lab.reset()
    for sql in lab.queries("ssb").values():
        client.ask(sql)
    return lab.get_bytes(lab.counters())


def expected_answers(chosen: argparse.Namespace) -> dict[Query, list]:
    location = str(lab.store_folder(chosen.work))
    local = lab.Server(chosen.nyala, chosen.work, "kill-local", location, chosen.port, None).start()
    expected = {}
    for name in ("ssb", "tpch"):
        local.create_tables(name)
        client = lab.Client(local.port, name)
        for query, sql in lab.queries(name).items():
            expected[name, query] = lab.canonical(client.ask(sql)[0])
    local.stop()
    return expected


def disturb(chosen: argparse.Namespace, server: lab.Server, load: Load) -> int:
    """The kills and flips, with seconds of load between them; gives how many bits were flipped."""
    dice, flipped = random.Random(chosen.seed), 0
    running, down = chosen.bits // 2, chosen.bits - chosen.bits // 2
    for number in range(chosen.kills):
        time.sleep(dice.uniform(3, 6))
        flipped += flip(server.cache_folder, running // chosen.kills, dice)
        time.sleep(dice.uniform(3, 6))
        load.up.clear()
        load.generation += 1
        server.stop(signal.SIGKILL)
        flipped += flip(server.cache_folder, down // chosen.kills, dice)
        begun = time.perf_counter()
        server.start()
        print(f"kill {number + 1}: up again after {time.perf_counter() - begun:.2f} s, {load.right} right answers", flush=True)
        load.up.set()
    time.sleep(5)
    return flipped


def measure(chosen: argparse.Namespace) -> bool:
    expected = expected_answers(chosen)
    cache = {"enabled": True}
    server = lab.Server(chosen.nyala, chosen.work, "kill", lab.BUCKET, chosen.port, cache).start()
    for name in ("ssb", "tpch"):
        server.create_tables(name)
    server.stop()
    server.start(empty_cache=True)
    passes = [("cold", pass_of_ssb(server)), ("warm", pass_of_ssb(server))]
    load = Load(chosen.port, chosen.clients, chosen.seed, expected)
    for thread in load.threads:
        thread.start()
    load.up.set()
    flipped = disturb(chosen, server, load)
    load.ending.set()
    for thread in load.threads:
        thread.join()
    server.stop(signal.SIGKILL)
    server.start()
    passes += [("after the last kill", pass_of_ssb(server)), ("once more", pass_of_ssb(server))]
    server.stop()
    print(
        f"\n{load.right} right answers, {load.lost} lost to {chosen.kills} kills, {len(load.wrong)} wrong, {flipped} bits flipped"
    )
    for line in sorted(set(load.wrong)):
        print(f"  {load.wrong.count(line)} times {line}")
    print("\n| pass of SSB | MB from the store | of the cold one |\n|---|---:|---:|")
    for name, size in passes:
        print(f"| {name} | {size / 1e6:.2f} | {100 * size / passes[0][1]:.2f} % |")
    return not load.wrong


def main() -> None:
    chosen = arguments()
    lab.up(chosen.work)
    for benchmark in ("ssb", "tpch"):
        lab.prepare(chosen.nyala, chosen.work, benchmark)
    try:
        right = measure(chosen)
    finally:
        lab.stop_all()
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    main()
