#!/usr/bin/env python3
"""Checks Nyala over Google's and Azure's stores, as `stores.sh up FOLDER` has started them.

    FOLDER/tools/venv/bin/python stores.py --nyala PATH [--stores FOLDER] [--only gcs|azure] [--keep]

A line for each check, PASS or FAIL with what was found; exit code 1 if any failed. Ports 15604 to 15606 of loopback are
used, and 15619, where nothing may listen. Needs psycopg; everything else is of the standard library.
"""

import argparse
import base64
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import urllib.request

import psycopg

import clients

HTTP_PORT, POSTGRES_PORT, PROXY_PORT, SILENT_PORT = 15604, 15605, 15606, 15619
BUCKET = "warehouse"
PATIENCE = 60
REQUEST = re.compile(rb"^(GET|HEAD|PUT|POST|DELETE) (\S+) HTTP/1\.[01]\r\n")
BIG_ROWS = 1_000_000

results = {"PASS": 0, "FAIL": 0}
# Everything that Nyala has said, by who said it: no secret may be in it.
said = []


class Failed(Exception):
    """What a check found instead."""


def expect(good, text=""):
    if not good:
        raise Failed(text)


def equal(found, expected, text=""):
    expect(found == expected, f"{text + ': ' if text else ''}{found!r:.400}, not {expected!r:.400}")


def has(text, *words):
    for word in words:
        expect(word in text, f"no {word!r} in {text:.600}")


@contextlib.contextmanager
def check(store, name):
    """Runs one check; the next one runs whatever comes of it."""
    notes = []
    try:
        yield notes.append
    except Failed as failed:
        result, text = "FAIL", str(failed)
    except Exception as error:  # noqa: BLE001
        where = traceback.extract_tb(error.__traceback__)
        line = next((frame.lineno for frame in where if frame.filename == __file__ and frame.name != "check"), 0)
        result, text = "FAIL", f"{type(error).__name__} at line {line}: {error}"
    else:
        result, text = "PASS", "; ".join(notes)
    results[result] += 1
    text = " ".join(text.split())
    print(f"{result} {store.name}: {name}" + (f": {text:.900}" if text else ""), flush=True)


def eventually(what, holds, within=PATIENCE):
    until = time.monotonic() + within
    while True:
        found = holds()
        if found:
            return found
        expect(time.monotonic() < until, f"{what}: not within {within} s")
        time.sleep(0.05)


class Proxy:
    """Hands bytes on to a store, knows what was asked, and can be as if the store were down."""

    def __init__(self, store_port):
        self.store_port, self.lock, self.requests, self.open = store_port, threading.Lock(), [], set()
        self.listener = None
        self.start()

    def start(self):
        self.listener = socket.create_server(("127.0.0.1", PROXY_PORT), backlog=128)
        threading.Thread(target=self.serve, args=[self.listener], daemon=True).start()

    def stop(self):
        # A thread that waits in accept() would keep the port open otherwise.
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        with self.lock:
            for connection in self.open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def serve(self, listener):
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self.hand_on, args=[client], daemon=True).start()

    def hand_on(self, client):
        with contextlib.suppress(OSError), client, socket.create_connection(("127.0.0.1", self.store_port)) as store:
            for one in (client, store):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self.lock:
                self.open |= {client, store}
            back = threading.Thread(target=self.pump, args=[store, client, False], daemon=True)
            back.start()
            self.pump(client, store, True)
            back.join()
            with self.lock:
                self.open -= {client, store}

    def pump(self, source, target, note):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 18):
                if note and (request := REQUEST.match(data)):
                    with self.lock:
                        self.requests.append(f"{request[1].decode()} {request[2].decode()}")
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def since(self, mark, *methods):
        """Requests since a mark, of these methods."""
        with self.lock:
            found = self.requests[mark:]
        return [request for request in found if not methods or request.split()[0] in methods]

    def mark(self):
        with self.lock:
            return len(self.requests)


class Store:
    """One of the two, with the sections of configuration that reach it."""

    def __init__(self, name, settings, run):
        self.name, self.settings = name, settings[name]
        self.scheme = {"gcs": "gs", "azure": "az"}[name]
        self.section = f"storage.{name}"
        self.prefix = f"check-{run}/"
        self.base = f"{self.scheme}://{BUCKET}/{self.prefix}"
        self.port = int(re.search(r":(\d+)", self.settings["endpoint"])[1])
        self.proxy = Proxy(self.port)
        self.client = (clients.Gcs if name == "gcs" else clients.Azure)(self.port, BUCKET)
        if name == "gcs":
            self.keys = pathlib.Path(self.settings["keys"])
            secrets = [json.loads((self.keys / file).read_text())["private_key"]
                       for file in ("account.json", "wrong-key.json")]
            # Lines of the keys, and the beginning of a token.
            self.secrets = [line for secret in secrets for line in secret.split("\n")[1:-2]] + ["eyJ", "SECRET-OF-BROKEN"]
        else:
            # Another key that is none of the account; and one that is no key at all.
            self.wrong_key = base64.b64encode(b"a key that opens nothing here ".ljust(64, b"!")).decode()
            self.no_key = "not-a-key!But=Secret"
            self.secrets = [self.settings["access_key"], self.wrong_key, self.no_key, "SharedKey "]

    def endpoint(self, port=PROXY_PORT):
        return self.settings["endpoint"].replace(str(self.port), str(port))

    def config(self, **changes):
        if self.name == "gcs":
            section = {"service_account": str(self.keys / "account.json")}
        else:
            section = {"account": self.settings["account"], "access_key": self.settings["access_key"]}
        return {"endpoint": self.endpoint(), "allow_http": True, **section, **changes}

    def names(self, prefix=""):
        """Objects below this run's prefix."""
        token, names = "", []
        while True:
            page = self.client.list(self.prefix + prefix, token=token)
            expect(page.status == 200, f"list: {page}")
            names += page.texts("Key" if self.name == "gcs" else "Name")
            token = next(iter(page.texts("NextContinuationToken" if self.name == "gcs" else "NextMarker")), "")
            if not token:
                return [name.removeprefix(self.prefix) for name in names]

    def put(self, name, body):
        written = self.client.put(self.prefix + name, body)
        expect(written.status in (200, 201), f"PUT {name}: {written}")

    def size(self, name):
        found = self.client.get(self.prefix + name, head=True)
        expect(found.status == 200, f"HEAD {name}: {found}")
        return int(found.headers["content-length"])

    def clear(self):
        for name in self.names():
            self.client.delete(self.prefix + name)


class Nyala:
    """The program with one data folder."""

    def __init__(self, program, work, store, name, section=None, further=None):
        self.program, self.store = program, store
        self.folder = work / f"{store.name}-{name}"
        self.data = self.folder / "data"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.config = self.folder / "nyala.toml"
        self.process = None
        self.configure(section, further)

    def configure(self, section=None, further=None):
        sections = {
            "storage": {"timeout_ms": 20_000, "retry_for_ms": 3000},
            self.store.section: self.store.config() if section is None else section,
            # Lists are used for ten minutes unless a session wants otherwise.
            "cubes": {"check_files_ms": 600_000},
            "query": {"slow_ms": 0},
        }
        for key, values in (further or {}).items():
            sections.setdefault(key, {}).update(values)
        lines = []
        for key, values in sections.items():
            lines += [f"[{key}]", *(f"{name} = {json.dumps(value)}" for name, value in values.items()), ""]
        self.config.write_text("\n".join(lines))
        self.config.chmod(0o600)

    def environment(self, **further):
        dropped = ("NYALA_", "AWS_", "GOOGLE_", "AZURE_", "SERVICE_ACCOUNT", "GCE_", "IDENTITY_", "MSI_", "HTTP_PROXY",
                   "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY")
        kept = {key: value for key, value in os.environ.items() if not key.startswith(dropped)}
        # Whatever happens, nobody but this machine is asked for credentials, and none of its user's are found.
        nobody = f"127.0.0.1:{SILENT_PORT}"
        return {**kept, "HOME": str(self.folder), "GCE_METADATA_HOST": nobody, "GCE_METADATA_IP": nobody,
                "AZURE_MSI_ENDPOINT": f"http://{nobody}/token", **further}

    def command(self, *arguments):
        """Runs it to its end."""
        done = subprocess.run([self.program, *arguments], env=self.environment(), cwd=self.folder, timeout=180,
                              capture_output=True, text=True, stdin=subprocess.DEVNULL)
        said.append((f"nyala {arguments[0]}", done.stdout + done.stderr))
        return done

    def sql(self, sql, folder=None):
        """By `nyala sql`, with a data folder of its own: another program, as far as a server can see."""
        data = folder or self.folder / "other"
        done = self.command("sql", "--config", str(self.config), "--data-dir", str(data), "--format", "csv", "-c", sql)
        expect(done.returncode == 0, f"{sql:.200}: {done.stderr}")
        return done.stdout

    def move(self, target):
        return self.command("storage", "move", "--config", str(self.config), "--data-dir", str(self.data), target)

    def serve_command(self):
        return [self.program, "serve", "--config", str(self.config), "--data-dir", str(self.data),
                "--http-listen", f"127.0.0.1:{HTTP_PORT}", "--postgres-listen", f"127.0.0.1:{POSTGRES_PORT}"]

    def start(self, **variables):
        """Gives what it said if it ends at once."""
        self.log = self.folder / "log"
        begun = self.log.stat().st_size if self.log.exists() else 0
        with open(self.log, "a") as log:
            self.process = subprocess.Popen(self.serve_command(), stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                            env=self.environment(**variables), cwd=self.folder)
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            if self.process.poll() is not None:
                self.process = None
                return self.log.read_text()[begun:]
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{HTTP_PORT}/readyz", timeout=5).read()
                return ""
            time.sleep(0.05)
        raise Failed(f"not ready within {PATIENCE} s: {self.log.read_text()[begun:]}")

    def up(self):
        refused = self.start()
        expect(not refused, f"it did not start: {refused}")
        return self

    def stop(self, how=signal.SIGTERM):
        if self.process is None:
            return
        self.process.send_signal(how)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise Failed("it did not stop within 30 s") from None
        finally:
            self.process = None
            said.append(("the log", self.log.read_text()))

    def connect(self):
        return psycopg.connect(f"host=127.0.0.1 port={POSTGRES_PORT} user=tester dbname=nyala connect_timeout=10",
                               autocommit=True)

    def query(self, sql, **settings):
        with self.connect() as connection:
            for key, value in settings.items():
                connection.execute(f"SET {key.replace('__', '.')} = {value}")
            return rows(connection, sql)

    def refused(self, sql):
        """The error of a statement, with its hint, and how long it took."""
        begun = time.monotonic()
        try:
            found = self.query(sql)
        except psycopg.Error as error:
            text = told(error)
            said.append((sql[:60], text))
            return text, time.monotonic() - begun
        raise Failed(f"no error, but {found!r:.200}: {sql}")

    def metric(self, name):
        text = urllib.request.urlopen(f"http://127.0.0.1:{HTTP_PORT}/metrics", timeout=10).read().decode()
        lines = [line for line in text.splitlines() if line.startswith(name)]
        return sum(float(line.rpartition(" ")[2]) for line in lines)

    def read_bytes(self):
        return self.metric("nyala_store_read_bytes_total")

    def warm_up(self, sql):
        """Waits until a statement is answered without the store."""
        def is_warm():
            before = self.read_bytes()
            self.query(sql)
            return self.read_bytes() == before
        eventually(f"warm for {sql:.60}", is_warm)


def told(error):
    diagnostics = error.diag
    parts = [str(error), diagnostics.message_detail, diagnostics.message_hint, diagnostics.sqlstate]
    # PostgreSQL's clients are told names in double quotes, others in backticks.
    return " | ".join(dict.fromkeys(part.strip() for part in parts if part)).replace('"', "`")


def rows(connection, sql):
    cursor = connection.execute(sql)
    return [tuple(row) for row in cursor.fetchall()] if cursor.description else cursor.statusmessage


def numbers(first, last):
    return f"SELECT v, v * v AS w FROM generate_series({first}, {last}) AS s(v)"


def count_and_sum(*ranges):
    every = [v for first, last in ranges for v in range(first, last + 1)]
    return [(len(every), sum(every))]


def files_and_cache(program, work, store):
    """COPY, tables of files, and the cache."""
    nyala = Nyala(program, work, store, "files")
    base = store.base
    total = "SELECT count(*), sum(v)::BIGINT FROM t"
    with check(store, "the server starts"):
        nyala.up()
    if nyala.process is None:
        return

    with check(store, "COPY TO a Parquet file"):
        done = nyala.query(f"COPY ({numbers(1, 200_000)}) TO '{base}t/a.parquet'")
        equal(store.names("t/"), ["t/a.parquet"])
        nyala.query(f"COPY ({numbers(200_001, 300_000)}) TO '{base}t/b.parquet'")
        expect(store.client.get(store.prefix + "t/a.parquet").body[:4] == b"PAR1", f"{done}: no Parquet")
    with check(store, "CREATE EXTERNAL TABLE over the folder, count and sum"):
        nyala.query(f"CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{base}t/'")
        equal(nyala.query(total), count_and_sum((1, 300_000)))
    with check(store, "the file of the folder by its name"):
        equal(nyala.query(f"SELECT count(*), sum(v)::BIGINT FROM '{base}t/b.parquet'"), count_and_sum((200_001, 300_000)))
    with check(store, "DESCRIBE of a file"):
        equal([row[0] for row in nyala.query(f"DESCRIBE '{base}t/a.parquet'")], ["v", "w"])

    with check(store, "a second read comes from the cache"):
        nyala.warm_up(total)
        before, mark = nyala.read_bytes(), store.proxy.mark()
        equal(nyala.query(total), count_and_sum((1, 300_000)))
        equal(nyala.read_bytes(), before, "bytes read from the store")
        equal(store.proxy.since(mark), [], "requests that the store got")
    with check(store, "EXPLAIN ANALYZE tells that bytes came from disk") as note:
        report = " ".join(str(cell) for row in nyala.query(f"EXPLAIN ANALYZE {total}") for cell in row)
        counts = dict(re.findall(r"(bytes_from_\w+)=(\S+?)[,\s\]]", report))
        has(report, "bytes_from_store=0")
        expect(counts.get("bytes_from_disk", "0") != "0", str(counts))
        note(str(counts))
    with check(store, "system.caches and system.cache_blocks name the files"):
        files = nyala.query("SELECT DISTINCT file FROM system.cache_blocks ORDER BY 1")
        equal(files, [(f"{base}t/a.parquet",), (f"{base}t/b.parquet",)])
    with check(store, "blocks outlast a restart"):
        nyala.stop()
        nyala.up()
        equal(nyala.query(total), count_and_sum((1, 300_000)))
        equal(nyala.read_bytes(), 0, "bytes read from the store")

    with check(store, "COPY TO in parts (some 40 MB)") as note:
        mark = store.proxy.mark()
        nyala.query(f"COPY (SELECT v, md5(v::TEXT) AS m FROM generate_series(1, {BIG_ROWS}) AS s(v)) "
                    f"TO '{base}big/x.parquet' (COMPRESSION none, ROW_GROUP_SIZE 100000)")
        size = store.size("big/x.parquet")
        expect(size > 33_000_000, f"only {size} bytes")
        sent = store.proxy.since(mark, "PUT", "POST")
        parts = [request for request in sent if "partNumber=" in request or "comp=block&" in request]
        expect(len(parts) >= 3, f"parts: {sent}")
        note(f"{size} bytes in {len(parts)} parts")
    big = "SELECT count(*), sum(v)::BIGINT, sum(CASE WHEN m = md5(v::TEXT) THEN 1 ELSE 0 END)::BIGINT FROM big"
    with check(store, "a large table: every row is what was written"):
        nyala.query(f"CREATE EXTERNAL TABLE big STORED AS PARQUET LOCATION '{base}big/'")
        equal(nyala.query(big), [(BIG_ROWS, BIG_ROWS * (BIG_ROWS + 1) // 2, BIG_ROWS)])
        nyala.warm_up(big)
        equal(nyala.query(big), [(BIG_ROWS, BIG_ROWS * (BIG_ROWS + 1) // 2, BIG_ROWS)])
    with check(store, "a large table, with neither statistics nor blocks that fit"):
        equal(nyala.query("SELECT count(*), min(m) FROM big WHERE v BETWEEN 500000 AND 500009"),
              nyala.query("SELECT count(*), min(md5(v::TEXT)) FROM generate_series(500000, 500009) AS s(v)"))
    with check(store, "a statement that is ended leaves no file and no upload"):
        with nyala.connect() as connection:
            connection.execute("SET statement_timeout = 1500")
            try:
                connection.execute(f"COPY (SELECT v, md5(v::TEXT) AS m FROM generate_series(1, 100000000) AS s(v)) "
                                   f"TO '{base}ended/x.parquet' (COMPRESSION none, ROW_GROUP_SIZE 100000)")
                raise Failed("it was not ended")
            except psycopg.errors.QueryCanceled:
                pass
        time.sleep(2)
        equal(store.names("ended/"), [])
        if store.name == "gcs":
            eventually("no upload", lambda: clients.ask(store.port, "GET", "/_uploads").body == b"{}", 10)

    for form, ending, options in [("CSV", "csv", ""), ("NDJSON", "json", "")]:
        with check(store, f"{form}: COPY TO, read, and from the cache"):
            nyala.query(f"COPY ({numbers(1, 200_000)}) TO '{base}{ending}/a.{ending}'{options}")
            nyala.query(f"CREATE EXTERNAL TABLE {ending} STORED AS {form} LOCATION '{base}{ending}/'")
            text = f"SELECT count(*), sum(v)::BIGINT FROM {ending}"
            equal(nyala.query(text), count_and_sum((1, 200_000)))
            nyala.warm_up(text)
            equal(nyala.query(text), count_and_sum((1, 200_000)))

    with check(store, "many files, in several pages of a list"):
        for number in range(12):
            nyala.query(f"COPY ({numbers(number * 10 + 1, number * 10 + 10)}) TO '{base}many/{number:02}.parquet'")
        nyala.query(f"CREATE EXTERNAL TABLE many STORED AS PARQUET LOCATION '{base}many/'")
        equal(nyala.query("SELECT count(*), sum(v)::BIGINT FROM many"), count_and_sum((1, 120)))
        equal(nyala.query(f"SELECT count(*), sum(v)::BIGINT FROM '{base}many/0*.parquet'"), count_and_sum((1, 100)))
    with check(store, "folders are partitions"):
        for number in range(7):
            nyala.query(f"COPY ({numbers(1, 10)}) TO '{base}parts/x={number}/y=a b/z.parquet'")
        nyala.query(f"CREATE EXTERNAL TABLE parts STORED AS PARQUET PARTITIONED BY (x, y) LOCATION '{base}parts/'")
        equal(nyala.query("SELECT x, y, count(*), sum(v)::BIGINT FROM parts WHERE x >= 5 GROUP BY x, y ORDER BY x"),
              [(5, "a b", 10, 55), (6, "a b", 10, 55)])
        equal(nyala.query(f"SELECT count(*), max(x) FROM '{base}parts/**/*.parquet'"), [(70, 6)])
    with check(store, "names with odd characters"):
        for number, name in enumerate(["a b", "ü", "a+b", "a&b", "a;b", "a,b=c", "100%25", "(a)", "a'b"]):
            at = f"{base}odd/{name}.parquet".replace("'", "''")
            nyala.query(f"COPY (SELECT {number} AS n) TO '{at}'")
            equal(nyala.query(f"SELECT n FROM '{at}'"), [(number,)], name)
        nyala.query(f"CREATE EXTERNAL TABLE odd STORED AS PARQUET LOCATION '{base}odd/'")
        equal(nyala.query("SELECT count(*), sum(n)::BIGINT FROM odd"), [(9, 36)])
        expect("odd/100%.parquet" in store.names("odd/"), str(store.names("odd/")))
    with check(store, "other programs' objects, and what is no data"):
        body = store.client.get(store.prefix + "t/a.parquet").body
        for name in ["theirs/a.parquet", "theirs/_SUCCESS", "theirs/.x.parquet", "theirs/sub/b.parquet", "theirs/readme.txt"]:
            store.put(name, body)
        # A folder as consoles make it.
        store.put("theirs/empty/", b"")
        nyala.query(f"CREATE EXTERNAL TABLE theirs STORED AS PARQUET LOCATION '{base}theirs/'")
        equal(nyala.query("SELECT count(*), sum(v)::BIGINT FROM theirs"), count_and_sum((1, 200_000)))

    replaced(nyala, store)
    with check(store, "WARM CACHE and DROP CACHE"):
        eventually("all blocks on disk", lambda: int(nyala.query("WARM CACHE FOR TABLE big")[0][2]) == 0)
        dropped = nyala.query("DROP CACHE FOR TABLE big")[0][0]
        expect(int(dropped) > 0, f"dropped {dropped}")
        files, size, fetched = nyala.query("WARM CACHE FOR TABLE big")[0][:3]
        equal((int(files), int(size), int(fetched)), (1, store.size("big/x.parquet"), store.size("big/x.parquet")))
        eventually("all blocks on disk", lambda: int(nyala.query("WARM CACHE FOR TABLE big")[0][2]) == 0)
    with check(store, "a store that goes away: the cache answers, other reads say why"):
        nyala.warm_up(total)
        store.proxy.stop()
        try:
            mark = store.proxy.mark()
            nyala.query(total)
            equal(store.proxy.since(mark), [])
            text, took = nyala.refused(f"SELECT count(*) FROM '{base}never-read.parquet'")
            has(text, "no answer from", store.section)
            expect(took < 30, f"after {took:.0f} s")
        finally:
            store.proxy.start()
        eventually("the store again", lambda: nyala.query(f"SELECT sum(n) FROM '{base}odd/ü.parquet'") == [(1,)])
    if store.name == "gcs":
        faults(nyala, store)
    with check(store, "the server stops"):
        nyala.stop()


def replaced(nyala, store):
    """Objects that are replaced and deleted while they are read."""
    base, total = store.base, "SELECT count(*), sum(v)::BIGINT FROM r"
    with check(store, "a replaced object: the old answer first, the new one with nyala.check_files"):
        nyala.sql(f"COPY ({numbers(1, 300_000)}) TO '{base}r/a.parquet'")
        nyala.sql(f"COPY ({numbers(300_001, 600_000)}) TO '{base}r/b.parquet'")
        nyala.query(f"CREATE EXTERNAL TABLE r STORED AS PARQUET LOCATION '{base}r/'")
        equal(nyala.query(total), count_and_sum((1, 600_000)))
        nyala.warm_up(total)
        nyala.sql(f"COPY ({numbers(700_001, 1_000_000)}) TO '{base}r/b.parquet'")
        equal(nyala.query(total), count_and_sum((1, 600_000)), "from the cache")
        equal(nyala.query(total, nyala__check_files="on"), count_and_sum((1, 300_000), (700_001, 1_000_000)))
        equal(nyala.query(total), count_and_sum((1, 300_000), (700_001, 1_000_000)), "afterwards")
    with check(store, "a replaced object is noticed when it is read, without nyala.check_files"):
        nyala.sql(f"COPY ({numbers(5, 50_000)}) TO '{base}r/a.parquet'")
        nyala.query("DROP CACHE")
        equal(nyala.query(total), count_and_sum((5, 50_000), (700_001, 1_000_000)))
    with check(store, "a deleted object"):
        store.client.delete(store.prefix + "r/a.parquet")
        equal(nyala.query(total, nyala__check_files="on"), count_and_sum((700_001, 1_000_000)))
    with check(store, "the server's own COPY is seen at once"):
        nyala.query(f"COPY (SELECT 3 AS v, 9 AS w) TO '{base}r/c.parquet'")
        equal(nyala.query(total), count_and_sum((3, 3), (700_001, 1_000_000)))

    with check(store, "an object that is replaced all the time: never rows of two versions") as note:
        versions = []
        for number in range(4):
            nyala.sql(f"COPY (SELECT v, {number} AS g, md5((v * {number + 1})::TEXT) AS m FROM generate_series(1, 120000) AS s(v)) "
                      f"TO '{base}mix/{number}.parquet' (COMPRESSION none, ROW_GROUP_SIZE 10000)")
            versions.append(store.client.get(f"{store.prefix}mix/{number}.parquet").body)
        expect(len({len(body) for body in versions}) == 1, "versions differ in size, which makes it easy")
        store.put("mixed/x.parquet", versions[0])
        nyala.query(f"CREATE EXTERNAL TABLE mixed STORED AS PARQUET LOCATION '{base}mixed/'")
        until, trouble, counts = time.monotonic() + 12, [], {"answers": 0, "40001": 0, "writes": 0, "drops": 0}
        seen = set()

        def write():
            while time.monotonic() < until:
                store.put("mixed/x.parquet", versions[counts["writes"] % 4])
                counts["writes"] += 1
                time.sleep(0.25)

        def drop():
            while time.monotonic() < until:
                nyala.query("DROP CACHE FOR TABLE mixed")
                counts["drops"] += 1
                time.sleep(0.1)

        def read(check_files):
            with nyala.connect() as connection:
                connection.execute(f"SET nyala.check_files = {check_files}")
                while time.monotonic() < until:
                    try:
                        found = rows(connection,
                                     "SELECT min(g), max(g), count(*), "
                                     "sum(CASE WHEN m = md5((v * (g + 1))::TEXT) THEN 1 ELSE 0 END)::BIGINT FROM mixed")
                    except psycopg.Error as error:
                        if error.sqlstate != "40001":
                            trouble.append(told(error))
                        counts["40001"] += 1
                        continue
                    counts["answers"] += 1
                    low, high, count, fitting = found[0]
                    seen.add(low)
                    if low != high or (count, fitting) != (120_000, 120_000):
                        trouble.append(f"mixed rows: {found}")

        work = [threading.Thread(target=self) for self in (write, drop)]
        work += [threading.Thread(target=read, args=[mode]) for mode in ("on", "off")]
        for one in work:
            one.start()
        for one in work:
            one.join()
        expect(not trouble, f"{len(trouble)} times, the first: {trouble[:2]}")
        expect(counts["answers"] >= 5 and len(seen) > 1, f"too few: {counts}, versions {seen}")
        note(f"{counts}, versions seen {sorted(seen)}")


def faults(nyala, store):
    """What the front can be told to do wrong."""
    def fail(method, times, contains, status=503, code="ServiceUnavailable"):
        path = f"/_fail?method={method}&times={times}&contains={contains}&status={status}&code={code}"
        clients.ask(store.port, "POST", path)

    with check(store, "a store that fails for a moment"):
        fail("GET", 2, "odd")
        nyala.query("DROP CACHE")
        equal(nyala.query("SELECT count(*), sum(n)::BIGINT FROM odd", nyala__check_files="on"), [(9, 36)])
        fail("PUT", 1, "moment")
        nyala.query(f"COPY (SELECT 1 AS n) TO '{store.base}moment.parquet'")
        equal(nyala.query(f"SELECT n FROM '{store.base}moment.parquet'"), [(1,)])
    with check(store, "a store that goes on failing") as note:
        fail("GET", 1000, "failing")
        text, _ = nyala.refused(f"CREATE EXTERNAL TABLE f STORED AS PARQUET LOCATION '{store.base}failing/'")
        has(text, f"bucket `{BUCKET}`", "ServiceUnavailable")
        expect("<Error>" not in text, text)
        note(text)


def cubes_over_files(program, work, store):
    """A cube over a table in the bucket, with cuboids in the data folder."""
    nyala = Nyala(program, work, store, "cube")
    sums = "SELECT d, sum(v) FROM s GROUP BY d ORDER BY d"
    on = {"nyala__check_files": "on"}

    def source(last):
        nyala.sql(f"COPY (SELECT v % 10 AS d, v FROM generate_series(1, {last}) AS s(v)) TO '{store.base}s/a.parquet'")

    def answers(last):
        found = [(int(d), int(total)) for d, total in nyala.query(sums, **on)]
        equal(found, [(d, sum(range(d or 10, last + 1, 10))) for d in range(10)])
        equal(nyala.query(sums, **on), nyala.query(sums, nyala__use_cubes="off", **on), "without cubes")

    def explained():
        return nyala.query(f"EXPLAIN {sums}", **on)[0][1]

    with check(store, "a cube over a table in the bucket: CREATE, BUILD, answered from it"):
        source(1000)
        nyala.up()
        nyala.query(f"CREATE EXTERNAL TABLE s STORED AS PARQUET LOCATION '{store.base}s/'")
        nyala.query("CREATE CUBE c AS SELECT d, sum(v), count(*) FROM s GROUP BY d")
        nyala.query("BUILD CUBE c")
        expect(explained().startswith("answered from cube"), explained())
        answers(1000)
    with check(store, "CHECK CUBE"):
        found = nyala.query("CHECK CUBE c SAMPLE 5")
        expect(found and all(row[3] == "ok" for row in found), str(found))
    with check(store, "a replaced object makes the cube stale"):
        source(2000)
        has(explained(), "changed since it was built")
        expect(explained().startswith("answered from the tables"), explained())
        answers(2000)
        equal(nyala.query("SHOW CUBES")[0][2], "stale")
    with check(store, "the cube is built again"):
        nyala.query("BUILD CUBE c")
        expect(explained().startswith("answered from cube"), explained())
        answers(2000)
    with check(store, "a cube of segments over the large table"):
        if "big/x.parquet" not in store.names("big/"):
            nyala.query(f"COPY (SELECT v, md5(v::TEXT) AS m FROM generate_series(1, {BIG_ROWS}) AS s(v)) "
                        f"TO '{store.base}big/x.parquet' (COMPRESSION none)")
        nyala.query(f"CREATE EXTERNAL TABLE big STORED AS PARQUET LOCATION '{store.base}big/'")
        nyala.query("CREATE CUBE p PARTITION BY RANGE (v) EVERY 250000 AS SELECT v, min(m) FROM big GROUP BY v")
        nyala.query("BUILD CUBE p")
        report = nyala.query("EXPLAIN SELECT min(m) FROM big WHERE v < 250000")[0][1]
        expect(report.startswith("answered from cube"), report)
        text = "SELECT min(m), max(v), count(DISTINCT v) FROM big"
        equal(nyala.query(text), nyala.query(text, nyala__use_cubes="off"))
    nyala.stop()


def cuboids_in_the_bucket(program, work, store):
    """`storage.data`, and moving between it and the data folder."""
    place = f"{store.base}nyala/"
    in_place = {"storage": {"data": place}}
    nyala = Nyala(program, work, store, "data", further=in_place)
    local = nyala.folder / "t.parquet"
    sums = "SELECT d, sum(v) FROM t GROUP BY d ORDER BY d"

    def objects():
        return [name for name in store.names("nyala/") if "/cubes/" in name]

    def check_cube():
        report = nyala.query(f"EXPLAIN {sums}")[0][1]
        expect(report.startswith("answered from cube"), report)
        equal([(int(d), int(total)) for d, total in nyala.query(sums)],
              [(d, sum(range(d or 10, 1001, 10))) for d in range(10)])
        equal(nyala.query(sums), nyala.query(sums, nyala__use_cubes="off"), "without cubes")
        found = nyala.query("CHECK CUBE c SAMPLE 5")
        expect(found and all(row[3] == "ok" for row in found), str(found))

    with check(store, "cuboids in the bucket: BUILD, answered from cube, CHECK CUBE") as note:
        nyala.up()
        nyala.query(f"COPY (SELECT v % 10 AS d, v FROM generate_series(1, 1000) AS s(v)) TO '{local}'")
        nyala.query(f"CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{local}'")
        nyala.query("CREATE CUBE c AS SELECT d, sum(v) FROM t GROUP BY d")
        nyala.query("BUILD CUBE c")
        check_cube()
        expect(objects() and "nyala/nyala-owner" in store.names("nyala/"), str(store.names("nyala/")))
        expect(not (nyala.data / "cubes").exists() or not any((nyala.data / "cubes").rglob("*.parquet")), "also on disk")
        note(", ".join(store.names("nyala/")))
    if nyala.process is None:
        return
    with check(store, "no table reads the place of cuboids"):
        text, _ = nyala.refused(f"SELECT * FROM '{place}cubes/**/*.parquet'")
        has(text, "files of the server itself")
        text, _ = nyala.refused(f"COPY (SELECT 1 AS x) TO '{place}cubes/x.parquet'")
        has(text, "files of the server itself")
    replaced = objects()
    with check(store, "a changed cube"):
        nyala.query("ALTER CUBE c ADD MEASURE max(v)")
        nyala.query("BUILD CUBE c")
        check_cube()
        expect(set(objects()) - set(replaced), "no new files")
    with check(store, "a restart: the cube is there; files of before, and orphans, are deleted"):
        nyala.stop()
        orphans = [f"nyala/cubes/7/0123/{number}-0.parquet" for number in range(300)]
        for orphan in orphans:
            store.put(orphan, b"x")
        kept = set(objects()) - set(orphans) - set(replaced)
        nyala.up()
        check_cube()
        eventually("only the files of the cube", lambda: set(objects()) == kept, 30)
    with check(store, "WARM CACHE FOR CUBE"):
        expect(int(nyala.query("WARM CACHE FOR CUBE c")[0][0]) > 0)
        eventually("a warm cuboid", lambda: int(nyala.query("WARM CACHE FOR CUBE c")[0][2]) == 0)
        check_cube()
    with check(store, "after SIGKILL, with an empty cache"):
        nyala.stop(signal.SIGKILL)
        shutil.rmtree(nyala.data / "block-cache", ignore_errors=True)
        nyala.up()
        check_cube()
        expect(nyala.read_bytes() > 0, "nothing was read from the store")
    with check(store, "another data folder is refused") as note:
        nyala.stop()
        other = Nyala(program, work, store, "data-other", further=in_place)
        text = other.start()
        other.stop()
        has(text, "has the cuboids of another data folder")
        note(text)

    with check(store, "`nyala storage move local`") as note:
        moved = nyala.move("local")
        equal(moved.returncode, 0, moved.stderr)
        expect(re.match(r"moved \d+ files of 1 segments", moved.stdout), moved.stdout)
        equal(store.names("nyala/"), [], "left in the bucket")
        note(moved.stdout)
    with check(store, "a configuration that was not changed is refused") as note:
        text = nyala.start()
        nyala.stop()
        has(text, "nyala storage move")
        note(text)
    with check(store, "the cube in the data folder"):
        nyala.configure(further={"storage": {"data": ""}})
        nyala.up()
        check_cube()
        nyala.stop()
    with check(store, "`nyala storage move` to the bucket, and twice") as note:
        moved = nyala.move(place)
        equal(moved.returncode, 0, moved.stderr)
        expect(re.match(r"moved \d+ files of 1 segments", moved.stdout), moved.stdout)
        has(moved.stdout, f'storage.data = "{place}"')
        for same in (place, place.rstrip("/"), place.replace("nyala/", "./n%79ala")):
            has(nyala.move(same).stdout, "the cuboids are there already")
        expect(objects(), "nothing in the bucket")
        note(moved.stdout)
    with check(store, "the cube in the bucket again"):
        nyala.configure(further=in_place)
        nyala.up()
        check_cube()
    with check(store, "DROP CUBE and a restart delete its objects"):
        nyala.query("DROP CUBE c")
        # A query might read them for five more minutes, if it were not for the restart.
        nyala.stop()
        nyala.up()
        eventually("no objects", lambda: objects() == [], 20)
        nyala.stop()
    nyala.stop()

    with check(store, "`nyala storage move` to where it may not write: nothing is lost") as note:
        lost = Nyala(program, work, store, "move-refused", wrong_credentials(store))
        lost.up()
        lost.query("CREATE LIVE TABLE t (id BIGINT PRIMARY KEY, d INT)")
        lost.query(f"CREATE EXTERNAL TABLE x STORED AS PARQUET LOCATION '{local}'")
        lost.query("CREATE CUBE c AS SELECT d, sum(v) FROM x GROUP BY d")
        lost.query("BUILD CUBE c")
        lost.stop()
        moved = lost.move(f"{store.base}refused/")
        expect(moved.returncode != 0, moved.stdout)
        has(moved.stderr, f"`{BUCKET}` was refused", store.section)
        lost.up()
        expect(lost.query("EXPLAIN SELECT d, sum(v) FROM x GROUP BY d")[0][1].startswith("answered from cube"))
        note(moved.stderr)
        lost.stop()


def wrong_credentials(store):
    if store.name == "gcs":
        return store.config(service_account=str(store.keys / "wrong-key.json"))
    return store.config(access_key=store.wrong_key)


def errors(program, work, store):
    """What cannot work, and what is said then."""
    base, quick = store.base, {"storage": {"retry_for_ms": 500}}
    nowhere = f"{store.scheme}://wharehouse/x/"
    table = "CREATE EXTERNAL TABLE e STORED AS PARQUET LOCATION "
    statements = {
        "a list": f"{table}'{{}}'",
        "a read": "SELECT * FROM '{}a.parquet'",
        "a write": "COPY (SELECT 1 AS x) TO '{}x.parquet'",
        "a large write": "COPY (SELECT md5(v::TEXT) AS m FROM generate_series(1, 700000) AS s(v)) TO '{}x.parquet' "
                         "(COMPRESSION none, ROW_GROUP_SIZE 100000)",
    }

    def clean(text):
        expect("<Error" not in text and "<?xml" not in text and "<Code>" not in text, f"XML in {text}")
        for secret in store.secrets:
            expect(secret not in text, f"a secret in {text}")

    def each(name, section, location, words, only=None, variables=None):
        """All kinds of requests, with a server of its own."""
        nyala = Nyala(program, work, store, re.sub(r"\W+", "-", name), section, quick)
        try:
            refused = nyala.start(**(variables or {}))
            with check(store, f"{name}: the server starts"):
                expect(not refused, refused)
            if refused:
                return
            for kind, sql in statements.items():
                if only and kind not in only:
                    continue
                with check(store, f"{name}: {kind}") as note:
                    text, took = nyala.refused(sql.format(location))
                    has(text, *words)
                    clean(text)
                    expect(took < 25, f"after {took:.0f} s: {text}")
                    note(text)
        finally:
            with contextlib.suppress(Failed):
                nyala.stop()

    section = store.section
    each("a missing bucket", None, nowhere, ["`wharehouse` does not exist", section])
    each("a wrong key", wrong_credentials(store), base, [f"`{BUCKET}` was refused", section])
    silent = store.config(endpoint=store.endpoint(SILENT_PORT))
    each("a server that is not running", silent, base,
         [f"no answer from `http://127.0.0.1:{SILENT_PORT}/", section, "Connection refused"])
    each("HTTP that is not allowed", store.config(allow_http=False), base, [section], only=["a list", "a write"])
    if store.name == "gcs":
        each("an account without permission", store.config(service_account=str(store.keys / "not-allowed.json")), base,
             [f"`{BUCKET}` was refused", section])
        each("a missing key file", store.config(service_account=str(store.keys / "none.json")), base,
             [section, "none.json"], only=["a list", "a write"])
        each("a broken key file", store.config(service_account=str(store.keys / "broken.json")), base,
             [section], only=["a list", "a write"])
        none = {key: value for key, value in store.config().items() if key != "service_account"}
        each("no credentials at all", none, base, [section], only=["a list", "a write"])
        each("an account without signatures", store.config(service_account=str(store.keys / "anonymous.json")),
             f"{base}none/", ["/none/` holds no readable file"], only=["a list"])
    else:
        each("a key that is none", store.config(access_key=store.no_key), base, [section], only=["a list", "a write"])
        each("an unknown account", store.config(account="nobody"), base, [section], only=["a list", "a read", "a write"])
        none = {key: value for key, value in store.config().items() if key != "access_key"}
        each("no credentials at all", none, base, [section], only=["a list", "a write"])
        none = {key: value for key, value in store.config().items() if key != "account"}
        each("no account", none, base, [section], only=["a list", "a write"])

    nyala = Nyala(program, work, store, "locations", None, quick)
    with check(store, "what is not there, in a bucket that is"):
        nyala.up()
        text, _ = nyala.refused(f"{table}'{base}nothing/'")
        has(text, "/nothing/` holds no readable file")
        text, _ = nyala.refused(f"{table}'{base}nothing.parquet'")
        has(text, "nothing.parquet")
        clean(text)
    with check(store, "credentials in a location are refused and not repeated"):
        for at in (f"{store.scheme}://key:hunter2@{BUCKET}/x/", f"{store.scheme}://{BUCKET}/x/?sig=hunter2"):
            text, _ = nyala.refused(f"{table}'{at}'")
            has(text, section)
            expect("hunter2" not in text, text)
    with check(store, "`nyala gen` into the bucket"):
        done = nyala.command("gen", "ssb", "--config", str(nyala.config), "--scale", "0.001", "--out", f"{base}ssb/")
        equal(done.returncode, 0, done.stderr)
        expect(any(name.startswith("ssb/lineorder/") for name in store.names("ssb/")), str(store.names("ssb/")))
    with check(store, "storage.allowed_locations"):
        nyala.stop()
        nyala.configure(further={"storage": {"allowed_locations": [f"{base}allowed/"]}})
        nyala.up()
        nyala.query(f"COPY (SELECT 1 AS x) TO '{base}allowed/x.parquet'")
        for sql in (f"SELECT * FROM '{base}t/a.parquet'", f"SELECT * FROM '{base}allowed/../t/a.parquet'",
                    f"COPY (SELECT 1 AS x) TO '{base}other.parquet'"):
            text, _ = nyala.refused(sql)
            has(text, "is not allowed")
    with contextlib.suppress(Failed):
        nyala.stop()

    place = {"storage": {"data": f"{base}place/", "retry_for_ms": 500}}
    for name, settings in [("a wrong key", wrong_credentials(store)), ("a server that is not running", silent)]:
        with check(store, f"storage.data with {name}: no start, or builds that say why") as note:
            place_of = Nyala(program, work, store, f"place-{name[2:5]}", settings, place)
            text = place_of.start()
            if not text:
                place_of.query("CREATE LIVE TABLE t (id BIGINT PRIMARY KEY, d INT)")
                place_of.query("CREATE CUBE c AS SELECT d, count(*) FROM t GROUP BY d")
                text, _ = place_of.refused("BUILD CUBE c")
            place_of.stop()
            has(text, section)
            clean(text)
            note(text)
    with check(store, "`nyala config` masks secrets"):
        shown = nyala.command("config", "--config", str(nyala.config)).stdout
        has(shown, f"[{section}]")
        clean(shown)
        if store.name == "azure":
            has(shown, "********")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nyala", required=True, type=lambda text: str(pathlib.Path(text).resolve()))
    parser.add_argument("--stores", default="/tmp/stores", type=pathlib.Path)
    parser.add_argument("--only", choices=["gcs", "azure"])
    parser.add_argument("--part", choices=["files", "cubes", "data", "errors"], help="only this part")
    parser.add_argument("--keep", action="store_true", help="keep the work folder")
    args = parser.parse_args()
    settings = json.loads((args.stores / "stores.json").read_text())
    for port in (HTTP_PORT, POSTGRES_PORT, PROXY_PORT, SILENT_PORT):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                sys.exit(f"something listens on port {port}")
    work = pathlib.Path(tempfile.mkdtemp(prefix="nyala-stores-"))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    servers = []
    begun = Nyala.start

    def start(self, **variables):
        servers.append(self)
        return begun(self, **variables)

    Nyala.start = start
    parts = {"files": files_and_cache, "cubes": cubes_over_files, "data": cuboids_in_the_bucket, "errors": errors}
    try:
        for name in [args.only] if args.only else ["gcs", "azure"]:
            store = Store(name, settings, f"{os.getpid()}")
            said.clear()
            for part, run in parts.items():
                if args.part in (None, part):
                    try:
                        run(args.nyala, work, store)
                    except Exception as error:  # noqa: BLE001 Between checks.
                        with check(store, f"part {part} came to its end"):
                            raise error
                    finally:
                        for server in servers:
                            with contextlib.suppress(Failed):
                                server.stop(signal.SIGKILL)
            with check(store, "no secret in any error, log or output"):
                found = {f"{who}: …{text[max(0, at - 80):at + 20]}…" for who, text in said for secret in store.secrets
                         if (at := text.find(secret)) >= 0}
                expect(not found, f"{len(found)} places: {sorted(found)[:3]}")
            store.clear()
            store.proxy.stop()
    finally:
        for server in servers:
            if server.process is not None:
                server.process.kill()
                server.process.wait()
        if args.keep:
            print(f"kept {work}")
        else:
            shutil.rmtree(work, ignore_errors=True)
    print(f"{results['PASS']} passed, {results['FAIL']} failed")
    sys.exit(1 if results["FAIL"] else 0)


if __name__ == "__main__":
    main()
