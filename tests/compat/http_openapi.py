#!/usr/bin/env python3
"""The OpenAPI document of a server, against its answers: each operation is asked, and each answer has a described status, type and form.

NYALA_HTTP is its address. It asks for passwords: `root`, a superuser, has `secret`, and `ann` has `other`.
"""

import base64
import copy
import http.client
import io
import json
import os
import re
import threading
import time
import urllib.parse

import pyarrow.parquet
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from checks import check, run

ADDRESS = os.environ["NYALA_HTTP"]
METHODS = ("get", "put", "post", "delete", "patch")
FORMATS = {
    "json": "application/json",
    "ndjson": "application/x-ndjson",
    "csv": "text/csv",
    "arrow": "application/vnd.apache.arrow.stream",
    "parquet": "application/vnd.apache.parquet",
}
ROOT = {"Authorization": "Basic " + base64.b64encode(b"root:secret").decode()}
ANN = {"Authorization": "Basic " + base64.b64encode(b"ann:other").decode()}
PATIENCE_SECONDS = 120


class Answer:
    def __init__(self, response, body):
        self.status = response.status
        self.headers = response.headers
        self.body = body

    def json(self):
        return json.loads(self.body)


def exchange(method, path, headers=ROOT, body=None, whole=True):
    """One request on a connection of its own; without `whole` only the head of the answer."""
    connection = http.client.HTTPConnection(ADDRESS, timeout=PATIENCE_SECONDS)
    try:
        connection.request(method, path, body=body, headers=headers)
        response = connection.getresponse()
        return Answer(response, response.read() if whole else b"")
    finally:
        connection.close()


DOCUMENT = exchange("GET", "/api/v1/openapi.json", headers={}).json()


def closed(node):
    """The document in which objects have no other properties than those that are listed: new ones have to be described."""
    if isinstance(node, list):
        return [closed(item) for item in node]
    if not isinstance(node, dict):
        return node
    node = {name: closed(value) for name, value in node.items()}
    if node.get("type") == "object" and "properties" in node:
        node.setdefault("additionalProperties", False)
    return node


REGISTRY = Registry().with_resource("urn:nyala", DRAFT202012.create_resource(closed(copy.deepcopy(DOCUMENT))))
# Operations that were asked with success.
ASKED = set()


def followed(node, pointer):
    """What a reference leads to, and where that is in the document."""
    while "$ref" in node:
        pointer = node["$ref"].removeprefix("#")
        node = DOCUMENT
        for part in pointer.split("/")[1:]:
            node = node[part.replace("~1", "/").replace("~0", "~")]
    return node, pointer


def pointer_to(*parts):
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)


def conforms(value, pointer):
    """Fails unless a value is as the schema at this place of the document describes it."""
    validator = Draft202012Validator({"$ref": f"urn:nyala#{urllib.parse.quote(pointer)}"}, registry=REGISTRY)
    errors = [f"{error.json_path}: {error.message}" for error in validator.iter_errors(value)]
    assert not errors, "\n".join(errors)


def ask(operation, status, query=None, body=None, headers=ROOT, whole=True, **path):
    """Asks an operation such as `GET /api/v1/jobs/{id}`, whose answer must have this status and be as described."""
    method, template = operation.split(" ")
    item = DOCUMENT["paths"][template]
    described = item[method.lower()]
    place = template.format(**{name: urllib.parse.quote(str(value), safe="") for name, value in path.items()})
    given = "?" + urllib.parse.urlencode(query) if query else ""
    headers = dict(headers)
    if isinstance(body, (dict, list)):
        headers["Content-Type"] = "application/json"
        body = json.dumps(body)
    answer = exchange(method, place + given, headers, body, whole)
    assert answer.status == status, f"{operation}: {answer.status}, not {status}: {answer.body[:500]}"
    responses = pointer_to("paths", template, method.lower(), "responses")
    key = str(status) if str(status) in described["responses"] else "default"
    assert key in described["responses"], f"{operation}: status {status} is not described"
    response, pointer = followed(described["responses"][key], f"{responses}/{key}")
    content = response.get("content", {})
    media_type = answer.headers.get("Content-Type", "").split(";")[0]
    if not content:
        assert not answer.body, f"{operation}: a body that is not described"
    else:
        assert media_type in content, f"{operation}: {media_type} is not described"
        if media_type == "application/json" and whole:
            conforms(answer.json(), f"{pointer}/content/{media_type.replace('/', '~1')}/schema")
    for name in answer.headers:
        if name.lower().startswith("x-nyala-"):
            assert name.lower() in response.get("headers", {}), f"{operation}: header {name} is not described"
    if status < 300:
        ASKED.add(operation)
    return answer


def sql(text, **more):
    return ask("POST /api/v1/query", 200, body={"sql": text, **more}).json()


def eventually(what, holds):
    end = time.monotonic() + PATIENCE_SECONDS
    while not (found := holds()):
        assert time.monotonic() < end, f"{what}: not within {PATIENCE_SECONDS} s"
        time.sleep(0.02)
    return found


@check
def document_is_valid():
    """the document is one of OpenAPI"""
    validate(DOCUMENT)
    names = [item[method]["operationId"] for item in DOCUMENT["paths"].values() for method in METHODS if method in item]
    assert len(names) == len(set(names)), names


@check
def checks_can_fail():
    """an answer that is not as described is found"""
    error = pointer_to("components", "schemas", "Error")
    conforms({"error": {"code": "c", "message": "m"}}, error)
    for wrong in ({}, {"error": {"code": "c"}}, {"error": {"code": "c", "message": "m", "more": 1}}):
        try:
            conforms(wrong, error)
        except AssertionError:
            continue
        raise AssertionError(f"{wrong} was taken")


@check
def statements():
    """answers of statements, in every format"""
    sql("CREATE TABLE stock (id BIGINT PRIMARY KEY, kind TEXT, n DOUBLE PRECISION)")
    sql("INSERT INTO stock SELECT v, 'k' || v % 5, v / 2.0 FROM generate_series(1, 1000) AS s(v)")
    values = "SELECT 1, 'x', 1.5::numeric(9, 2), NULL::text, true, ARRAY[1, 2], DATE '2026-01-01', 1e300::float8"
    assert sql(values, parameters=[], settings={"nyala.use_cubes": "off"})["row_count"] == 1
    for name, media_type in FORMATS.items():
        rows = ask("POST /api/v1/query", 200, body={"sql": values}, headers={**ROOT, "Accept": media_type})
        assert rows.headers["x-nyala-query"].isdigit() and rows.headers["Content-Type"].startswith(media_type)
        done = ask("POST /api/v1/query", 200, body={"sql": "DELETE FROM stock WHERE id < 0"}, headers={**ROOT, "Accept": media_type})
        assert done.headers["x-nyala-rows-affected"] == "0"
        linked = ask("GET /api/v1/query", 200, query={"sql": values, "format": name})
        assert linked.headers["Content-Type"].startswith(media_type)
    ask("POST /api/v1/query", 400, body={"sql": "SELECT * FROM missing"})
    ask("POST /api/v1/query", 400, body={"sql": "SELECT 1; SELECT 2"})
    ask("POST /api/v1/query", 406, body={"sql": "SELECT 1"}, headers={**ROOT, "Accept": "image/png"})
    ask("POST /api/v1/query", 415, body="SELECT 1", headers={**ROOT, "Content-Type": "text/plain"})
    ask("POST /api/v1/query", 403, body={"sql": "SELECT * FROM stock"}, headers=ANN)
    ask("GET /api/v1/query", 405, query={"sql": "DELETE FROM stock"})


@check
def parquet_answers():
    """a Parquet answer is a file that others read, and a type that it cannot hold is told"""
    rows = "SELECT v AS n, 'row ' || v AS t, CAST(v AS NUMERIC(12, 2)) AS p, ARRAY[v] AS l FROM generate_series(1, 20000) AS s(v)"
    linked = ask("GET /api/v1/query", 200, query={"sql": rows, "format": "parquet"})
    posted = ask("POST /api/v1/query", 200, body={"sql": rows}, headers={**ROOT, "Accept": FORMATS["parquet"]})
    for answer in (linked, posted):
        table = pyarrow.parquet.read_table(io.BytesIO(answer.body))
        numbers = sorted(table.column("n").to_pylist())
        assert numbers == list(range(1, 20001)), (len(numbers), numbers[:3])
        [first] = [row for row in table.to_pylist() if row["n"] == 1]
        assert (first["t"], str(first["p"]), first["l"]) == ("row 1", "1.00", [1]), first
    refused = ask("GET /api/v1/query", 422, query={"sql": "SELECT INTERVAL '1 day'", "format": "parquet"}).json()["error"]
    assert "cast the column to text" in refused["hint"], refused


@check
def requests():
    """a request may have the described fields, and no others"""
    schema = DOCUMENT["components"]["schemas"]["QueryRequest"]
    body = {
        "sql": "SELECT $1::text",
        "parameters": ["x"],
        "settings": {"statement_timeout": "30s", "nyala.use_cubes": True, "nyala.single_node_rows": 1},
        "max_rows": 1,
        "route": True,
        "application": "test",
    }
    assert set(body) == set(schema["properties"])
    conforms(body, pointer_to("components", "schemas", "QueryRequest"))
    ask("POST /api/v1/query", 200, body=body)
    refused = ask("POST /api/v1/query", 400, body={"sql": "SELECT 1", "nonsense": 1}).json()["error"]["message"]
    assert expected_in(refused) == set(schema["properties"]), refused


def expected_in(message):
    """The names in `unknown field …, expected one of …`."""
    assert "unknown field `nonsense`" in message, message
    return set(re.findall("`([^`]+)`", message.split("expected", 1)[1]))


@check
def query_parameters():
    """operations take the parameters that they are described with, and no others"""
    seen = 0
    for template, item in DOCUMENT["paths"].items():
        for method in METHODS:
            listed = item.get("parameters", []) + item.get(method, {}).get("parameters", [])
            parameters = [followed(parameter, "")[0] for parameter in listed]
            described = {parameter["name"] for parameter in parameters if parameter["in"] == "query"}
            if method not in item or not described:
                continue
            in_path = {parameter["name"]: "1" for parameter in parameters if parameter["in"] == "path"}
            headers = {**ROOT, "Content-Type": "text/csv"}
            operation = f"{method.upper()} {template}"
            refused = ask(operation, 400, query={"nonsense": "1"}, headers=headers, **in_path)
            found = expected_in(refused.json()["error"]["message"])
            assert found == described, f"{operation} takes {found}, and is described with {described}"
            seen += 1
    assert seen == 6, seen


@check
def routes_of_answers():
    """how answers were made, from the tables, a cube, and a plan that was there"""
    sql("CREATE CUBE kinds WITH (auto_refresh = off) AS SELECT kind, sum(n), count(*) FROM stock GROUP BY kind")
    by_kind = "SELECT kind, sum(n) FROM stock GROUP BY kind"
    missed = sql(by_kind, route=True, max_rows=2)
    assert missed["more"] is True and missed["route"]["aggregations"][0]["cube"] is None
    assert missed["route"]["aggregations"][0]["other_cubes"]
    sql("BUILD CUBE kinds")
    hit = sql(by_kind, route=True)
    assert hit["route"]["aggregations"][0]["cube"] == "public.kinds"
    number = ask("POST /api/v1/query", 200, body={"sql": by_kind}).headers["x-nyala-query"]
    ended = ask("GET /api/v1/queries/{id}", 200, id=number).json()
    assert ended["state"] == "finished" and ended["route"]["answered_from"] == "public.kinds"
    ask("GET /api/v1/queries/{id}", 404, id=10**15)


@check
def running_statements():
    """what runs is listed, told, and ended"""
    endless = "SELECT count(*) FROM generate_series(1, 100000000) a(v), generate_series(1, 100000) b(v) WHERE a.v + b.v < 0"
    ended = []
    headers = {**ROOT, "Content-Type": "application/json"}

    def run_endless():
        ended.append(exchange("POST", "/api/v1/query", headers, json.dumps({"sql": endless})))

    thread = threading.Thread(target=run_endless)
    thread.start()

    def number():
        listed = ask("GET /api/v1/queries", 200).json()
        places = {column["name"]: at for at, column in enumerate(listed["columns"])}
        found = [row for row in listed["rows"] if row[places["query"]].startswith(endless[:60]) and row[places["state"]] == "running"]
        return found and found[0][places["query_id"]]

    running = eventually("it runs", number)
    told = ask("GET /api/v1/queries/{id}", 200, id=running).json()
    assert told["state"] == "running" and told["error"] is None
    assert ask("DELETE /api/v1/queries/{id}", 204, id=running).body == b""
    thread.join()
    assert ended[0].status == 499, ended[0].body
    told = ask("GET /api/v1/queries/{id}", 200, id=running).json()
    assert told["state"] == "killed" and told["error"]
    # Listed for a moment longer than its client waits.
    eventually("it is no longer listed", lambda: exchange("DELETE", f"/api/v1/queries/{running}", ROOT).status == 404)
    ask("DELETE /api/v1/queries/{id}", 404, id=running)
    ask("GET /api/v1/queries", 403, headers=ANN)
    ask("GET /api/v1/queries", 200, headers={**ROOT, "Accept": "text/csv"})
    ask("GET /debug/tasks", 200)


@check
def loads_and_changes():
    """rows that come, and changes that go"""
    csv = {**ROOT, "Content-Type": "text/csv"}
    load = "POST /api/v1/tables/{table}/rows"
    loaded = ask(load, 200, query={"max_rejects": 5}, headers=csv, body="id,kind,n\n2001,a,1\nx,b,2\n2002\n", table="public.stock").json()
    assert (loaded["rows"], loaded["rejected"], [row.get("column") for row in loaded["rejects"]]) == (1, 2, ["id", None])
    for again in (False, True):
        loaded = ask(load, 200, query={"label": "once"}, headers=csv, body="id\n2003\n", table="stock").json()
        assert loaded["applied_before"] is again
    lines = {**ROOT, "Content-Type": "application/x-ndjson"}
    ask(load, 200, headers=lines, body='{"id": 2004}\n', table="stock")
    assert "column `id`" in ask(load, 422, headers=lines, body='{"id": []}\n', table="stock").json()["error"]["message"]
    ask(load, 400, headers=csv, body="id\n1\n", table="missing")
    ask(load, 415, headers={**ROOT, "Content-Type": "image/png"}, body="", table="stock")
    ask("GET /api/v1/tables/{table}/changes", 200, whole=False, table="stock")
    ask("GET /api/v1/tables/{table}/changes", 200, query={"after": loaded["lsn"]}, whole=False, table="stock")
    ask("GET /api/v1/tables/{table}/changes", 400, table="missing")


@check
def jobs():
    """builds, and how they end"""
    sql("CREATE TABLE big AS SELECT v AS a, v % 1000003 AS b, v % 7 AS c FROM generate_series(1, 200000) AS g(v)")
    sql("CREATE CUBE cells WITH (auto_refresh = off) AS SELECT a, b, c, count(*) FROM big GROUP BY CUBE (a, b, c)")
    states = set()

    def cancelled():
        number = sql("REFRESH CUBE cells WITH (wait = off)")["rows"][0][0]
        asked = exchange("DELETE", f"/api/v1/jobs/{number}")
        # It may have ended before.
        assert asked.status in (202, 409), asked.body
        job = eventually("its end", lambda: ended(number))
        return job["state"] == "cancelled" and asked.status == 202 and asked.json()

    def ended(number):
        job = ask("GET /api/v1/jobs/{id}", 200, id=number).json()
        states.add(job["state"])
        return job["state"] != "running" and job

    accepted = eventually("a cancelled job", cancelled)
    conforms(accepted, pointer_to("paths", "/api/v1/jobs/{id}", "delete", "responses", "202", "content", "application/json", "schema"))
    ASKED.add("DELETE /api/v1/jobs/{id}")
    ask("DELETE /api/v1/jobs/{id}", 409, id=accepted["job"])
    assert "cancelled" in states
    ask("GET /api/v1/jobs/{id}", 404, id=10**15)
    assert ask("GET /api/v1/jobs", 200).json()["jobs"]


@check
def the_server_itself():
    """login, health, metrics and profiles"""
    ask("GET /api/v1/", 200)
    ask("GET /api/v1", 200)
    ask("GET /api/v1/openapi.json", 200, headers={})
    token = ask("POST /api/v1/token", 200).json()["token"]
    bearer = {"Authorization": f"Bearer {token}"}
    ask("GET /api/v1/jobs", 200, headers=bearer)
    ask("POST /api/v1/token", 401, headers=bearer)
    ask("GET /healthz", 200, headers={})
    ask("GET /readyz", 200, headers={})
    ask("GET /metrics", 200)
    for operation in ("GET /debug/flamegraph", "GET /debug/heap"):
        quick = {"seconds": 1} if "flamegraph" in operation else {}
        for format in ("svg", "folded", "pprof"):
            # Binaries that take no profiles say so.
            place = operation.split(" ")[1] + "?" + urllib.parse.urlencode({**quick, "format": format})
            status = exchange("GET", place).status
            assert status in (200, 501), status
            ask(operation, status, query={**quick, "format": format})
            ASKED.add(operation)
        ask(operation, 403, query=quick, headers=ANN)


@check
def who_comes_in():
    """operations that want a password are refused without one, as described, and others need none"""
    for template, item in DOCUMENT["paths"].items():
        for method in METHODS:
            if method not in item:
                continue
            place = template.replace("{id}", "1").replace("{table}", "stock")
            status = exchange(method.upper(), place, headers={}, whole="changes" not in template).status
            is_open = item[method].get("security") == []
            assert (status != 401) == is_open, f"{method} {template}: {status}"
            assert is_open or "401" in item[method]["responses"], template


@check
def all_operations():
    """each operation was asked"""
    all_of_them = {f"{method.upper()} {path}" for path, item in DOCUMENT["paths"].items() for method in METHODS if method in item}
    assert ASKED == all_of_them, all_of_them - ASKED


run()
