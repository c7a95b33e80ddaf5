"""Superset in this process, and one of its databases with the calls that the checks make."""

import io
import json
import logging
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HOME = Path(os.environ.setdefault("SUPERSET_HOME", str(Path(tempfile.gettempdir()) / "nyala-superset")))
CONFIG = f"""SECRET_KEY = "of a test, that nobody else ever reads"
SQLALCHEMY_DATABASE_URI = "sqlite:///{HOME}/superset.db"
WTF_CSRF_ENABLED = TALISMAN_ENABLED = False
FEATURE_FLAGS = {{"ESTIMATE_QUERY_COST": True, "ENABLE_TEMPLATE_PROCESSING": True}}
# PostgreSQL has weeks from Monday only; these are the ones of Superset's documentation.
TIME_GRAIN_ADDON_EXPRESSIONS = {{"postgresql": {{
    "1969-12-28T00:00:00Z/P1W": "DATE_TRUNC('week', {{col}} + INTERVAL '1 day') - INTERVAL '1 day'",
    "1969-12-29T00:00:00Z/P1W": "DATE_TRUNC('week', {{col}})",
    "P1W/1970-01-03T00:00:00Z": "DATE_TRUNC('week', {{col}} + INTERVAL '1 day') + INTERVAL '5 days'"}}}}
"""


def start():
    """Superset in this process, with its database and a user, and a client that is logged in."""
    HOME.mkdir(parents=True, exist_ok=True)
    config = HOME / "superset_config.py"
    config.write_text(CONFIG)
    os.environ |= {"SUPERSET_CONFIG_PATH": str(config), "FLASK_APP": "superset"}
    if not (HOME / "ready").exists():
        program = str(Path(sys.executable).with_name("superset"))
        for command in (["db", "upgrade"], ["fab", "create-admin", "--username", "admin", "--firstname", "a", "--lastname", "b", "--email", "a@example.org", "--password", "admin"], ["init"]):
            subprocess.run([program, *command], check=True, capture_output=True)
        (HOME / "ready").touch()
    logging.disable(logging.CRITICAL)
    from superset.app import create_app

    client = create_app().test_client()
    token = client.post("/api/v1/security/login", json={"username": "admin", "password": "admin", "provider": "db", "refresh": False}).json["access_token"]

    def call(method, path, **more):
        answer = getattr(client, method)("/api/v1/" + path, headers={"Authorization": f"Bearer {token}"}, **more)
        return answer.status_code, answer.get_json(silent=True) if answer.is_json else answer.get_data(as_text=True)

    return call


def failure(body):
    """An error's kind, and the server's words after it for who reads."""
    return {
        "error": [e.get("error_type") for e in body.get("errors", [])] if isinstance(body, dict) else "page",
        "~words": body.get("errors") or body.get("message") if isinstance(body, dict) else str(body)[:300],
    }


class Server:
    def __init__(self, call, name, url):
        self.call, self.name, self.url, self.datasets = call, name, url, {}
        # Over SQLite, Superset keeps one dataset of a name: those of an earlier server go first.
        for kind in ("dataset", "database"):
            for found in call("get", f"{kind}/?q=(page_size:100)")[1]["result"]:
                call("delete", f"{kind}/{found['id']}")
        extra = json.dumps({"allows_virtual_table_explore": True, "cost_estimate_enabled": True, "schemas_allowed_for_file_upload": ["public"]})
        status, body = call(
            "post",
            "database/",
            json={"database_name": name, "sqlalchemy_uri": url, "expose_in_sqllab": True, "allow_ctas": True, "allow_cvas": True, "allow_dml": True, "allow_file_upload": True, "extra": extra},
        )
        assert status == 201, body
        self.id = body["id"]

    def dataset(self, table, sql=None):
        if table not in self.datasets:
            status, body = self.call("post", "dataset/", json={"database": self.id, "schema": "public", "table_name": table, **({"sql": sql} if sql else {})})
            self.datasets[table] = body["id"] if status == 201 else failure(body)
            if table == "ss_sales" and status == 201:
                columns = self.call("get", f"dataset/{body['id']}")[1]["result"]["columns"]
                keep = [{k: c[k] for k in ("id", "column_name", "is_dttm", "python_date_format", "type", "filterable", "groupby")} for c in columns]
                for column in keep:
                    if column["column_name"] == "epoch":
                        column |= {"is_dttm": True, "python_date_format": "epoch_s"}
                self.call("put", f"dataset/{body['id']}", json={"columns": keep})
        return self.datasets[table]

    def chart(self, query, table="ss_sales", sql=None):
        found = self.dataset(table, sql)
        if isinstance(found, dict):
            return found
        kind = query.get("result_type", "full")
        query = {k: v for k, v in query.items() if k != "result_type"}
        status, body = self.call("post", "chart/data", json={"datasource": {"id": found, "type": "table"}, "queries": [query], "result_type": kind, "result_format": "json", "force": True})
        if status != 200:
            return failure(body)
        result = body["result"][0]
        data = result.get("data")
        if isinstance(data, list) and not query.get("row_offset") and query.get("orderby") != [["id", True]] and kind == "full":
            data = sorted(data, key=lambda row: json.dumps(row, sort_keys=True, default=str))
        if kind == "samples":
            data = len(data)
        return {"data": data, "columns": result.get("colnames"), "kinds": result.get("coltypes"), "error": result.get("error"), "~sql": result.get("query")}

    def lab(self, sql, **more):
        status, body = self.call(
            "post", "sqllab/execute/", json={"database_id": self.id, "sql": sql, "schema": "public", "runAsync": False, "queryLimit": 1000, "client_id": os.urandom(5).hex(), **more}
        )
        if status != 200:
            return failure(body)
        return {"data": body["data"], "columns": [(c["column_name"], c["type"], c["is_dttm"]) for c in body["columns"]], "~sql": body["query"]["executedSql"]}

    def get(self, path, pick=lambda body: body):
        status, body = self.call("get", path)
        return pick(body) if status == 200 else failure(body)

    def upload(self, name, data, kind="csv", **form):
        status, body = self.call(
            "post", f"database/{self.id}/upload/", data={"type": kind, "table_name": "ss_upload", "schema": "public", "file": (io.BytesIO(data), name), **form}, content_type="multipart/form-data"
        )
        return self.lab("SELECT * FROM ss_upload ORDER BY 1, 2") if status in (200, 201) else failure(body)
