#!/usr/bin/env python3
"""compare.py NYALA OUT [TABLE...]: each table in each version as Nyala reads it, over HTTP in Arrow, beside the expected rows.

Exits with 1 if rows differ, or a table is refused for another reason than a feature that the documentation leaves out.
"""

import csv
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import pyarrow.ipc

from expected import csv_text

PORT = 15731
ARROW = "application/vnd.apache.arrow.stream"
LEFT_OUT = ["has column mapping", "shallow clones are not supported", "is variant, which is not supported"]
# An empty string in the log is NULL to the protocol, and to Spark where it writes one itself.
EMPTY_IS_NULL = "parted_types"


def ask(sql: str, accept: str = "application/json") -> bytes:
    body = json.dumps({"sql": sql, "settings": {"timezone": "UTC"}}).encode()
    headers = {"content-type": "application/json", "accept": accept}
    request = urllib.request.Request(f"http://127.0.0.1:{PORT}/api/v1/query", body, headers)
    with urllib.request.urlopen(request) as answer:
        return answer.read()


def serve(nyala: str, folder: str) -> subprocess.Popen:
    listen = ["--http-listen", f"127.0.0.1:{PORT}", "--postgres-listen", f"127.0.0.1:{PORT + 1}"]
    log = open(f"{folder}/log", "w")
    server = subprocess.Popen([nyala, "serve", "--data-dir", f"{folder}/data", *listen], stdout=log, stderr=log)
    for _ in range(300):
        try:
            ask("SELECT 1")
            return server
        except OSError:
            time.sleep(0.1)
    sys.exit(f"the server does not answer: {folder}/log")


def difference(table: pathlib.Path, version: str, expected: str) -> str:
    """What is other than expected; empty if nothing is."""
    header = next(csv.reader(io.StringIO(expected)))
    columns = ", ".join('"' + column.replace('"', '""') + '"' for column in header)
    options = f"OPTIONS ('version' '{version}')" if version else ""
    ask("DROP TABLE IF EXISTS t")
    ask(f"CREATE EXTERNAL TABLE t STORED AS DELTA LOCATION '{table}/' {options}")
    rows = pyarrow.ipc.open_stream(ask(f"SELECT {columns} FROM t", ARROW)).read_all()
    counted = int(json.loads(ask("SELECT count(*) FROM t"))["rows"][0][0])
    if counted != rows.num_rows:
        return f"count(*) is {counted}, and there are {rows.num_rows} rows"
    if table.name == EMPTY_IS_NULL:
        expected = expected.replace(',""\n', ",\n")
    found, wanted = csv_text(rows).split("\n"), expected.split("\n")
    other = [f"found {one:.200}, expected {two:.200}" for one, two in zip(found, wanted) if one != two]
    return f"{len(found)} lines, {len(wanted)} expected: {other[:2]}" if found != wanted else ""


def main() -> None:
    nyala, out, only = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
    same, left_out, wrong = 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        server = serve(nyala, folder)
        try:
            for file in sorted(out.glob("*.expected.csv")):
                name, _, version = file.name.removesuffix(".expected.csv").partition("@")
                if only and name not in only:
                    continue
                try:
                    other = difference(out / name, version, file.read_bytes().decode())
                except urllib.error.HTTPError as error:
                    other = error.read().decode()
                    if any(words in other for words in LEFT_OUT):
                        left_out += 1
                        continue
                same, wrong = same + (not other), wrong + bool(other)
                if other:
                    print(f"{name}, version {version or 'newest'}: {other}")
        finally:
            server.terminate()
            server.wait()
    print(f"{same} of {same + wrong} versions are equal; {left_out} are refused for features that are not read")
    sys.exit(bool(wrong))


main()
