#!/usr/bin/env python3
"""Runs Apache Superset over PostgreSQL and over Nyala, through its own REST API in this process, and compares what the charts would be given.

    superset.py postgresql://user@host:port/database postgresql://nyala@host:port/nyala [part of a check's name ...]

Wants a Python with apache-superset 6.1 (README.md). Prints a line for each difference with the SQL that was sent, and the number of equal answers.
The folder SUPERSET_HOME (by default in the temporary folder) keeps Superset's own database: making it takes some minutes, once.
"""

import io
import json
import logging
import os
import re
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
SETUP = [
    "DROP VIEW IF EXISTS ss_cvas",
    "DROP VIEW IF EXISTS ss_view",
    "DROP TABLE IF EXISTS ss_sales",
    "DROP TABLE IF EXISTS ss_shops",
    "DROP TABLE IF EXISTS ss_upload",
    "DROP TABLE IF EXISTS ss_ctas",
    "CREATE TABLE ss_sales (id INT PRIMARY KEY, day DATE, at TIMESTAMP, seen TIMESTAMPTZ, amount NUMERIC(12,2), n INT, big BIGINT, ratio DOUBLE PRECISION, "
    'kind VARCHAR(20), shop INT, ok BOOLEAN, note TEXT, epoch BIGINT, "Mixed Case" TEXT)',
    "INSERT INTO ss_sales SELECT x, DATE '2023-01-01' + x, TIMESTAMP '2023-01-01 00:00:00' + x * INTERVAL '1 day' + x * INTERVAL '37 seconds', "
    "TIMESTAMPTZ '2023-01-01 00:00:00+00' + (x * 1443 || ' minutes')::interval, (x * 7 % 1000) + 0.25, x % 17, x::bigint * 1000000007, x::float8 / 7, "
    "CASE x % 5 WHEN 0 THEN 'tea' WHEN 1 THEN 'milk''s' WHEN 2 THEN 'Ö_l%' WHEN 3 THEN '' END, x % 12, CASE WHEN x % 3 < 2 THEN x % 3 = 0 END, "
    "CASE WHEN x % 4 > 0 THEN 'note ' || x END, 1672531200 + x * 86400, 'm' || (x % 2) FROM generate_series(1, 1500) AS g(x)",
    "CREATE TABLE ss_shops (id INT PRIMARY KEY, city TEXT)",
    "INSERT INTO ss_shops SELECT x, 'city ' || (x % 4) FROM generate_series(0, 11) AS g(x)",
    "CREATE VIEW ss_view AS SELECT s.id, s.at, s.amount, c.city FROM ss_sales s JOIN ss_shops c ON c.id = s.shop WHERE s.ok",
]
GRAINS = [
    "PT1S",
    "PT5S",
    "PT30S",
    "PT1M",
    "PT5M",
    "PT10M",
    "PT15M",
    "PT30M",
    "PT1H",
    "P1D",
    "P1W",
    "P1M",
    "P3M",
    "P1Y",
    "1969-12-28T00:00:00Z/P1W",
    "1969-12-29T00:00:00Z/P1W",
    "P1W/1970-01-03T00:00:00Z",
]
RANGES = [
    "No filter",
    "Last day",
    "Last week",
    "Last month",
    "Last quarter",
    "Last year",
    "previous calendar week",
    "previous calendar month",
    "previous calendar year",
    "Current week",
    "Current month",
    "Current year",
    "2024-02-01 : 2024-03-01",
    "2024-02-29T12:00:00 : ",
    " : 2023-06-01",
    "2024-01-01T00:00:00 : DATEADD(DATETIME('2024-01-01T00:00:00'), 10, day)",
    "DATETRUNC(DATETIME('today'), year) : now",
    "Last 90 days",
    "100 years ago : now",
]


def simple(function, column, **more):
    return {"expressionType": "SIMPLE", "aggregate": function, "column": {"column_name": column}, "label": f"{function}({column})", **more}


def custom(sql, label=None):
    return {"expressionType": "SQL", "sqlExpression": sql, "label": label or sql}


def axis(column="at", grain="P1M"):
    return {"columnType": "BASE_AXIS", "sqlExpression": column, "label": column, "expressionType": "SQL", "timeGrain": grain, "isColumnReference": True}


def when(column, value="No filter"):
    return {"col": column, "op": "TEMPORAL_RANGE", "val": value}


SUM, COUNT = simple("SUM", "amount"), custom("COUNT(*)", "count")
PIVOT = {"operation": "pivot", "options": {"index": ["at"], "columns": ["kind"], "aggregates": {"SUM(amount)": {"operator": "mean"}}, "drop_missing_columns": False}}
FLATTEN = {"operation": "flatten"}
BOX = {"operation": "boxplot", "options": {"whisker_type": "tukey", "percentiles": None, "groupby": ["kind"], "metrics": ["SUM(amount)"]}}


def charts():
    """Name and query of each chart; `row_limit` is large enough for whole answers, that are put in order before they are compared."""
    base = {"metrics": [SUM, COUNT], "columns": ["kind"], "row_limit": 10000, "orderby": [[SUM, False]]}
    c = {}
    for column in ("at", "day", "seen"):
        for grain in GRAINS:
            c[f"grain {column} {grain}"] = {**base, "columns": [axis(column, grain)], "orderby": [], "filters": [when(column, "2024-01-01 : 2024-07-01")]}
        for span in RANGES:
            c[f"range {column} {span}"] = {**base, "filters": [when(column, span)]}
        c[f"old granularity {column}"] = {**base, "granularity": column, "is_timeseries": True, "columns": [], "orderby": [], "time_range": "Last year", "extras": {"time_grain_sqla": "P1W"}}
        c[f"min max {column}"] = {"metrics": [simple("MIN", column), simple("MAX", column), simple("COUNT_DISTINCT", column)], "columns": []}
    c["epoch"] = {**base, "columns": [axis("epoch", "P1M")], "orderby": [], "filters": [when("epoch", "2024-01-01 : 2025-01-01")]}
    for name, f in {
        "equal": {"col": "kind", "op": "==", "val": "milk's"},
        "not equal": {"col": "kind", "op": "!=", "val": "tea"},
        "in": {"col": "kind", "op": "IN", "val": ["tea", "milk's"]},
        "in null": {"col": "kind", "op": "IN", "val": ["tea", None]},
        "in null text": {"col": "kind", "op": "IN", "val": ["<NULL>", "<empty string>"]},
        "not in": {"col": "kind", "op": "NOT IN", "val": ["tea", "Ö_l%"]},
        "like": {"col": "kind", "op": "LIKE", "val": "%il%"},
        "ilike": {"col": "kind", "op": "ILIKE", "val": "%MILK%"},
        "not like": {"col": "kind", "op": "NOT LIKE", "val": "t%"},
        "like escaped": {"col": "kind", "op": "LIKE", "val": "Ö\\_l\\%"},
        "null": {"col": "kind", "op": "IS NULL"},
        "not null": {"col": "kind", "op": "IS NOT NULL"},
        "greater": {"col": "n", "op": ">", "val": "5"},
        "number in": {"col": "n", "op": "IN", "val": ["1", 2, 3.0]},
        "number like": {"col": "n", "op": "LIKE", "val": "1%"},
        "big": {"col": "big", "op": ">=", "val": 1000000007000},
        "numeric": {"col": "amount", "op": "<=", "val": "99.25"},
        "ratio": {"col": "ratio", "op": "<", "val": 3.14},
        "true": {"col": "ok", "op": "IS TRUE"},
        "false": {"col": "ok", "op": "IS FALSE"},
        "bool equal": {"col": "ok", "op": "==", "val": True},
        "bool in": {"col": "ok", "op": "IN", "val": [True, False]},
        "bool text": {"col": "ok", "op": "==", "val": "true"},
        "date equal": {"col": "day", "op": "==", "val": "2024-02-29"},
        "date in": {"col": "day", "op": "IN", "val": ["2024-02-29", "2024-03-01"]},
        "date number": {"col": "day", "op": ">", "val": 1709164800000},
        "time number": {"col": "at", "op": ">=", "val": 1709164800000},
        "zoned number": {"col": "seen", "op": "<", "val": 1709164800000},
        "time equal": {"col": "at", "op": "==", "val": "2024-02-29"},
        "quoted": {"col": "Mixed Case", "op": "==", "val": "m1"},
        "expression": {"col": {"expressionType": "SQL", "sqlExpression": "lower(kind)", "label": "l"}, "op": "==", "val": "tea"},
    }.items():
        c[f"filter {name}"] = {**base, "filters": [f]}
    c["filter grain"] = {**base, "filters": [{"col": "at", "op": "TEMPORAL_RANGE", "val": "2024-01-01 : 2024-06-01", "grain": "P1M"}]}
    c["where"] = {**base, "extras": {"where": "(kind <> 'x' OR kind IS NULL) AND date_part('dow', at) IN (1, 2)"}}
    c["having"] = {**base, "extras": {"having": "COUNT(*) > 300 AND SUM(amount) IS NOT NULL"}}
    c["jinja"] = {**base, "extras": {"where": "at >= '{{ from_dttm or \"2024-01-01\" }}' AND 1 = {{ 1 if filter_values('kind') else 1 }}"}}
    for function in ("COUNT", "COUNT_DISTINCT", "SUM", "AVG", "MIN", "MAX"):
        for column in ("amount", "n", "big", "ratio") + (("kind", "ok", "day") if function.startswith("COUNT") else ("kind", "day") if function in ("MIN", "MAX") else ()):
            c[f"metric {function} {column}"] = {**base, "metrics": [simple(function, column)], "orderby": [["kind", True]]}
    for sql in (
        "SUM(amount) FILTER (WHERE ok)",
        "COUNT(*) FILTER (WHERE kind LIKE 't%')",
        "SUM(CASE WHEN ok THEN amount ELSE 0 END)",
        "SUM(amount) / NULLIF(COUNT(DISTINCT shop), 0)",
        "COUNT(*) * 100.0 / SUM(COUNT(*)) OVER ()",
        "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY ratio)",
        "PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY amount)",
        "PERCENTILE_DISC(0.25) WITHIN GROUP (ORDER BY n)",
        "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY amount) FILTER (WHERE ok)",
        "MODE() WITHIN GROUP (ORDER BY n)",
        "ROUND(STDDEV(ratio)::numeric, 4)",
        "ROUND(VAR_POP(amount), 4)",
        "ROUND(CORR(ratio, n)::numeric, 6)",
        "STRING_AGG(DISTINCT note, ',' ORDER BY note) FILTER (WHERE n = 1)",
        "ARRAY_AGG(n ORDER BY id) FILTER (WHERE id < 20)",
        "BOOL_OR(ok)",
        "EVERY(ok)",
        "MAX(at) - MIN(at)",
        "MAX(day) - MIN(day)",
        "EXTRACT(EPOCH FROM MAX(at) - MIN(at))",
        "COUNT(DISTINCT (kind, n))",
        "SUM(amount)::int",
        "AVG(n)",
        "AVG(n::float)",
        "SUM(big)",
        "SUM(amount * ratio)",
        "ROUND(AVG(amount), 2)",
        "COALESCE(SUM(amount), 0)",
        "MAX(TO_CHAR(at, 'YYYY-MM'))",
        "COUNT(*) - COUNT(note)",
        "MIN(kind || '-' || n)",
        "SUM(n) % 7",
        "SUM(1)",
        "1.0 * SUM(n) / COUNT(*)",
        "SUM(amount) > 100",
        "(ARRAY_AGG(n ORDER BY at DESC))[1]",
        "COUNT(*)::text || ' rows'",
        "REGR_SLOPE(ratio, n) IS NOT NULL",
        "GREATEST(MAX(n), 5)",
        "SUM(ABS(n - 8))",
        "LN(SUM(n))",
        "TRUNC(AVG(amount), 1)",
    ):
        c[f"custom {sql}"] = {**base, "metrics": [custom(sql, "m")], "orderby": [["kind", True]]}
    for sql in (
        "CASE WHEN n > 5 THEN 'many' ELSE 'few' END",
        "EXTRACT(DOW FROM at)",
        "EXTRACT(YEAR FROM day)::int",
        "TO_CHAR(at, 'Dy HH24')",
        "date_trunc('week', day)",
        "upper(kind)",
        "n / 5",
        "amount::int",
        "width_bucket(ratio, 0, 100, 5)",
        "kind || ' ' || n",
        "at::date",
        "age(day, '2023-01-01')::text",
        "day + 1",
        "seen AT TIME ZONE 'Europe/Berlin'",
        "split_part(note, ' ', 2)",
        "left(note, 5)",
        "kind IS NULL",
        "to_timestamp(epoch)",
    ):
        c[f"dimension {sql}"] = {**base, "columns": [custom(sql, "d")], "orderby": []}
    c["table raw"] = {"columns": ["id", "day", "at", "seen", "amount", "n", "big", "ratio", "kind", "ok", "note", "Mixed Case"], "metrics": [], "orderby": [["id", True]], "row_limit": 50}
    c["table page"] = {**c["table raw"], "row_offset": 20, "row_limit": 10}
    c["table rowcount"] = {**c["table raw"], "is_rowcount": True, "row_limit": 0}
    c["table grouped rowcount"] = {**base, "is_rowcount": True, "orderby": []}
    c["table order"] = {**c["table raw"], "orderby": [["kind", False], ["amount", True], ["id", True]], "row_limit": 40}
    c["table totals"] = {**base, "columns": [], "orderby": []}
    c["table percent"] = {**base, "post_processing": [{"operation": "contribution", "options": {"columns": ["SUM(amount)"], "rename_columns": ["%SUM(amount)"]}}]}
    c["time series"] = {**base, "columns": [axis(), "kind"], "series_columns": ["kind"], "metrics": [SUM], "post_processing": [PIVOT, FLATTEN]}
    for limited, value in {"series limit": 2, "series limit offset": 3}.items():
        c[limited] = {
            **base,
            "columns": [axis(), "kind"],
            "series_columns": ["kind"],
            "series_limit": value,
            "series_limit_metric": SUM if value == 2 else custom("SUM(n + id)", "d"),
            "metrics": [SUM],
            "filters": [when("at", "2024-01-01 : 2025-01-01")],
            "row_limit": 5000,
        }
    c["series limit two"] = {
        **c["series limit"],
        "columns": [axis("day", "P1W"), "kind", "shop"],
        "series_columns": ["kind", "shop"],
        "series_limit": 4,
        "filters": [when("day", "2024-01-01 : 2024-03-01")],
    }
    c["series limit others"] = {**c["series limit"], "group_others_when_limit_reached": True}
    for offset in ("1 year ago", "1 month ago", "28 days ago", "1 week ago", "inherit", "2023-06-01"):
        c[f"compare {offset}"] = {
            **base,
            "columns": [axis(), "kind"],
            "series_columns": ["kind"],
            "metrics": [SUM],
            "time_offsets": [offset],
            "filters": [when("at", "2024-06-01 : 2024-12-01")],
            "orderby": [],
        }
        c[f"compare total {offset}"] = {**base, "columns": [axis("day", "P1D")], "metrics": [SUM], "time_offsets": [offset], "filters": [when("day", "2024-06-01 : 2024-07-01")], "orderby": []}
    c["compare two"] = {**c["compare 1 year ago"], "time_offsets": ["1 year ago", "1 month ago"]}
    c["compare table"] = {**base, "time_offsets": ["1 year ago"], "filters": [when("at", "2024-06-01 : 2024-12-01")]}
    c["compare kpi"] = {**base, "columns": [], "time_offsets": ["1 year ago"], "filters": [when("at", "2024-06-01 : 2024-12-01")], "orderby": []}
    c["big number"] = {"metrics": [SUM], "columns": []}
    c["big number trend"] = {
        "metrics": [SUM],
        "columns": [axis("at", "P1W")],
        "filters": [when("at", "2024-01-01 : 2025-01-01")],
        "post_processing": [
            {"operation": "pivot", "options": {"index": ["at"], "columns": [], "aggregates": {"SUM(amount)": {"operator": "mean"}}}},
            {"operation": "rolling", "options": {"rolling_type": "mean", "window": 4, "min_periods": 1, "columns": {"SUM(amount)": "SUM(amount)"}}},
            FLATTEN,
        ],
        "row_limit": 10000,
    }
    c["cumulative"] = {
        **c["big number trend"],
        "post_processing": [
            c["big number trend"]["post_processing"][0],
            {"operation": "cum", "options": {"operator": "sum", "columns": {"SUM(amount)": "SUM(amount)"}}},
            {"operation": "resample", "options": {"method": "ffill", "rule": "1D"}},
            FLATTEN,
        ],
    }
    c["pivot table"] = {**base, "columns": ["kind", "ok", axis("at", "P1Y")], "metrics": [SUM, COUNT], "orderby": []}
    c["box plot"] = {**base, "columns": [axis("at", "P1M"), "kind"], "series_columns": ["kind"], "metrics": [SUM], "orderby": [], "post_processing": [BOX]}
    c["histogram"] = {"columns": ["ratio", "kind"], "metrics": [], "row_limit": 10000, "post_processing": [{"operation": "histogram", "options": {"column": "ratio", "groupby": ["kind"], "bins": 5}}]}
    c["bubble"] = {**base, "columns": ["shop", "kind"], "metrics": [SUM, simple("AVG", "n"), simple("MAX", "ratio")], "orderby": []}
    c["sankey"] = {**base, "columns": ["kind", "shop"], "metrics": [COUNT], "orderby": [[COUNT, False]]}
    c["heatmap"] = {
        **base,
        "columns": [custom("EXTRACT(DOW FROM at)", "d"), "shop"],
        "metrics": [COUNT],
        "orderby": [],
        "post_processing": [{"operation": "rank", "options": {"metric": "count", "group_by": "shop"}}],
    }
    c["saved metric"] = {**base, "metrics": ["count"], "orderby": [["count", False]]}
    c["order by text"] = {**base, "orderby": [["kind", True]], "row_limit": 3}
    c["no rows"] = {**base, "filters": [{"col": "n", "op": ">", "val": 99}]}
    c["filter values"] = {"columns": ["kind"], "metrics": [COUNT], "orderby": [["kind", True]], "row_limit": 1000}
    c["filter search"] = {"columns": ["kind"], "metrics": [], "filters": [{"col": "kind", "op": "ILIKE", "val": "%T%"}], "orderby": [["kind", True]], "row_limit": 1000}
    c["filter range"] = {"columns": [], "metrics": [simple("MIN", "ratio", label="min"), simple("MAX", "ratio", label="max")]}
    for kind in ("samples", "drill_detail", "columns", "timegrains", "query"):
        c[f"result {kind}"] = {**base, "result_type": kind, "filters": [{"col": "n", "op": "==", "val": 3}] if kind == "drill_detail" else [], "orderby": []}
    return c


VIRTUAL = {
    "cte": "WITH q AS (SELECT kind, at, amount, n FROM ss_sales WHERE n > 3) SELECT kind, at, amount, n FROM q",
    "join": "SELECT s.*, c.city FROM ss_sales s LEFT JOIN ss_shops c ON c.id = s.shop",
    "union": "SELECT kind, at, amount, n FROM ss_sales UNION ALL SELECT 'all', at, amount, n FROM ss_sales",
    "window": "SELECT kind, at, amount, n, row_number() OVER (PARTITION BY kind ORDER BY at) AS r FROM ss_sales",
    "order and limit": "SELECT kind, at, amount, n FROM ss_sales ORDER BY id LIMIT 100",
    "comment": "-- a comment\nSELECT kind, at, amount, n /* inside */ FROM ss_sales -- at the end",
    "semicolon": "SELECT kind, at, amount, n FROM ss_sales;",
    "template": "SELECT kind, at, amount, n FROM ss_sales WHERE 1 = 1 {% if from_dttm %} AND at >= '{{ from_dttm }}' {% endif %}",
    "recursive": "WITH RECURSIVE d(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM d WHERE x < 9) SELECT kind, at, amount, n FROM ss_sales JOIN d ON d.x = n",
    "lateral": "SELECT s.kind, s.at, s.amount, s.n FROM ss_shops c CROSS JOIN LATERAL (SELECT * FROM ss_sales s WHERE s.shop = c.id ORDER BY s.id LIMIT 5) s",
    "spine": "SELECT d::timestamp AS at, 'x' AS kind, 1.5 AS amount, 1 AS n FROM generate_series('2024-01-01'::timestamp, '2024-12-31', '1 day') AS d",
    "spine in list": "SELECT generate_series('2024-01-01'::timestamp, '2024-12-31', '1 day') AS at, 'x' AS kind, 1.5 AS amount, 1 AS n",
    "values": "SELECT * FROM (VALUES ('a', TIMESTAMP '2024-01-01', 1.5, 1), ('b', TIMESTAMP '2024-02-01', 2.5, 2)) AS v(kind, at, amount, n)",
    "distinct on": "SELECT DISTINCT ON (kind) kind, at, amount, n FROM ss_sales ORDER BY kind, at DESC",
}
LAB = {
    "select": "SELECT id, day, at, seen, amount, ratio, kind, ok FROM ss_sales ORDER BY id LIMIT 5",
    "limit added": "SELECT id FROM ss_sales ORDER BY id",
    "own limit": "SELECT id FROM ss_sales ORDER BY id LIMIT 20000",
    "cte": "WITH q AS (SELECT kind, count(*) AS c FROM ss_sales GROUP BY 1) SELECT * FROM q ORDER BY 2, 1",
    "several": "SELECT 1 AS a; SELECT 2 AS b",
    "explain": "EXPLAIN SELECT 1",
    "show": "SHOW search_path",
    "no rows": "SELECT * FROM ss_sales WHERE id < 0",
    "types": "SELECT 1 AS i, 1.5 AS n, 1.5::float8 AS f, 'a' AS s, true AS b, NULL AS z, DATE '2024-01-01' AS d, TIMESTAMP '2024-01-01 01:02:03' AS t, TIMESTAMPTZ '2024-01-01 01:02:03+02' AS tz, TIME '01:02:03' AS c, INTERVAL '1 day' AS iv, ARRAY[1::int, 2::int] AS a, '\\x01'::bytea AS y",
    "duplicate names": "SELECT 1 AS a, 2 AS a",
    "percent": "SELECT kind FROM ss_sales WHERE kind LIKE '%l\\%' ORDER BY 1 LIMIT 1",
    "colon": "SELECT '12:30' AS t, 'a'::text AS b",
    "template": "SELECT {{ 1 + 1 }} AS x",
    "error column": "SELECT nope FROM ss_sales",
    "error table": "SELECT * FROM nope",
    "error syntax": "SELEC 1",
    "error division": "SELECT 1/0",
    "writes": "INSERT INTO ss_shops VALUES (99, 'x')",
    "writes more": "UPDATE ss_shops SET city = 'y' WHERE id = 99",
    "deletes": "DELETE FROM ss_shops WHERE id = 99",
    "creates": "CREATE TABLE IF NOT EXISTS ss_lab (a INT)",
    "drops": "DROP TABLE ss_lab",
}


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
    sys.path.remove(str(Path(__file__).resolve().parent))  # where this file is, `superset` would be this file
    logging.disable(logging.CRITICAL)
    from superset.app import create_app

    client = create_app().test_client()
    token = client.post("/api/v1/security/login", json={"username": "admin", "password": "admin", "provider": "db", "refresh": False}).json["access_token"]

    def call(method, path, **more):
        answer = getattr(client, method)("/api/v1/" + path, headers={"Authorization": f"Bearer {token}"}, **more)
        return answer.status_code, answer.get_json(silent=True) if answer.is_json else answer.get_data(as_text=True)

    return call


def plain(value):
    """Times that pass, and who the server is, taken out."""
    text = json.dumps(value, sort_keys=True, default=str, ensure_ascii=False)
    return re.sub(r"\b(15|5)\d{3}\b/nyala", "PORT/nyala", text)


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

    def checks(self):
        mine = lambda body: [(t["value"], t["type"]) for t in body["result"] if t["value"].startswith("ss_") and t["value"] not in ("ss_upload", "ss_ctas", "ss_cvas")]
        d, public = f"database/{self.id}", "q=(schema_name:public)"
        yield "test connection", lambda: self.call("post", "database/test_connection/", json={"sqlalchemy_uri": self.url, "database_name": self.name})[0]
        yield (
            "test wrong database",
            lambda: [
                e["error_type"]
                for e in self.call("post", "database/test_connection/", json={"sqlalchemy_uri": self.url.rsplit("/", 1)[0] + "/no_such", "database_name": self.name})[1].get("errors", [])
            ],
        )
        yield "catalogs", lambda: self.get(f"{d}/catalogs/?q=(force:!t)", lambda b: "nyala" in b["result"])
        yield "schemas", lambda: self.get(f"{d}/schemas/?q=(force:!t)", lambda b: sorted(s for s in b["result"] if s in ("public", "information_schema")))
        yield "tables", lambda: self.get(f"{d}/tables/?{public}", mine)
        yield "functions", lambda: self.get(f"{d}/function_names/", lambda b: {"date_trunc", "percentile_cont", "now"} <= set(b["function_names"]))
        for table in ("ss_sales", "ss_view", "ss_shops"):
            yield (
                f"metadata {table}",
                lambda table=table: self.get(f"{d}/table_metadata/?name={table}&schema=public", lambda b: {k: b[k] for k in ("columns", "primaryKey", "foreignKeys", "indexes", "comment")}),
            )
            yield f"select star {table}", lambda table=table: self.get(f"{d}/select_star/{table}/public/")
            yield f"metadata extra {table}", lambda table=table: self.get(f"{d}/table_metadata/extra/?name={table}&schema=public")
            yield (
                f"dataset {table}",
                lambda table=table: self.get(
                    f"dataset/{self.dataset(table)}",
                    lambda b: [(c["column_name"], c["type"], c["type_generic"], c["is_dttm"]) for c in b["result"]["columns"]] + [m["expression"] for m in b["result"]["metrics"]],
                ),
            )
            yield f"refresh {table}", lambda table=table: self.call("put", f"dataset/{self.dataset(table)}/refresh")[0]
        for column in ("kind", "n", "ok", "day", "at", "amount", "Mixed Case"):
            yield (f"values {column}", lambda column=column: self.get(f"datasource/table/{self.dataset('ss_sales')}/column/{column}/values/", lambda b: sorted(map(str, b["result"]))[:50]))
        for name, expression, kind in (
            ("column", "upper(kind)", "column"),
            ("metric", "SUM(amount)", "metric"),
            ("where", "n > 3", "where"),
            ("having", "COUNT(*) > 3", "having"),
            ("wrong", "nope(kind)", "column"),
        ):
            yield (
                f"validate {name}",
                lambda e=expression, k=kind: (lambda s, b: (s, len(b.get("result") or [])))(
                    *self.call("post", f"datasource/table/{self.dataset('ss_sales')}/validate_expression/", json={"expression": e, "expression_type": k})
                ),
            )
        for name, query in charts().items():
            yield f"chart {name}", lambda query=query: self.chart(query)
        for name, sql in VIRTUAL.items():
            for shape, query in {
                "month": {"columns": [axis(), "kind"], "metrics": [SUM], "filters": [when("at", "2024-01-01 : 2025-01-01")], "row_limit": 10000},
                "top": {
                    "columns": [axis(), "kind"],
                    "series_columns": ["kind"],
                    "series_limit": 2,
                    "series_limit_metric": SUM,
                    "metrics": [SUM, COUNT],
                    "row_limit": 10000,
                    "extras": {"where": "n < 12"},
                },
                "raw": {"columns": ["kind", "amount", "n"], "metrics": [], "row_limit": 10000},
                "rowcount": {"columns": ["kind"], "metrics": [], "is_rowcount": True},
                "samples": {"columns": [], "result_type": "samples"},
            }.items():
                yield f"virtual {name} {shape}", lambda query=query, name=name, sql=sql: self.chart(query, "v " + name, sql)
            yield (
                f"virtual {name} columns",
                lambda name=name: self.get(f"dataset/{self.dataset('v ' + name)}", lambda b: sorted((c["column_name"], c["type_generic"], c["is_dttm"]) for c in b["result"]["columns"])),
            )
        yield "view", lambda: self.chart({"columns": [axis(), "city"], "metrics": [SUM, COUNT], "row_limit": 10000, "filters": [when("at", "Last year")]}, "ss_view")
        for name, sql in LAB.items():
            yield f"lab {name}", lambda sql=sql: self.lab(sql)
        yield (
            "lab ctas",
            lambda: (
                self.lab("SELECT kind, count(*) AS c FROM ss_sales GROUP BY 1", select_as_cta=True, ctas_method="TABLE", tmp_table_name="ss_ctas") and self.lab("SELECT * FROM ss_ctas ORDER BY 1, 2")
            ),
        )
        yield (
            "lab cvas",
            lambda: (
                self.lab("SELECT kind, count(*) AS c FROM ss_sales GROUP BY 1", select_as_cta=True, ctas_method="VIEW", tmp_table_name="ss_cvas") and self.lab("SELECT * FROM ss_cvas ORDER BY 1, 2")
            ),
        )
        yield (
            "lab estimate",
            lambda: (lambda s, b: (s, [sorted(x) for x in b["result"]]) if s == 200 else failure(b))(
                *self.call("post", "sqllab/estimate/", json={"database_id": self.id, "sql": "SELECT * FROM ss_sales WHERE n > 3", "schema": "public"})
            ),
        )
        yield "lab validate", lambda: self.call("post", f"{d}/validate_sql/", json={"sql": "SELECT 1", "schema": "public"})[0]
        csv = b'i,f,s,b,d,t\n1,1.5,a,true,2024-01-01,2024-01-01 01:02:03\n2,,,false,,\n3,-2,"x,""y",true,2024-02-29,2024-02-29 00:00:00\n'
        yield "upload csv", lambda: self.upload("a.csv", csv, already_exists="replace")
        yield "upload csv dates", lambda: self.upload("a.csv", csv, already_exists="replace", column_dates="d,t", column_data_types='{"i": "int64", "b": "bool"}')
        yield "upload csv append", lambda: self.upload("a.csv", csv, already_exists="append", column_dates="d,t")
        yield "upload csv index", lambda: self.upload("a.csv", csv, already_exists="replace", dataframe_index="true", index_label="k")
        yield "upload csv fails", lambda: self.upload("a.csv", csv, already_exists="fail")
        parquet = io.BytesIO()
        import pandas

        pandas.DataFrame({"i": [1, 2], "f": [0.1, None], "s": ["a", None], "d": pandas.to_datetime(["2024-01-01", None])}).to_parquet(parquet)
        yield "upload parquet", lambda: self.upload("a.parquet", parquet.getvalue(), "columnar", already_exists="replace")


def main(right_url, url, wanted):
    import psycopg2

    for target in (right_url, url):
        connection = psycopg2.connect(target)
        connection.autocommit = True
        for sql in SETUP:
            connection.cursor().execute(sql)
        connection.close()
    call = start()
    from superset.extensions import db

    answers = {}
    for server in (("right", right_url), ("own", url)):
        for name, check in Server(call, *server).checks():
            if wanted and not any(part in name for part in wanted):
                continue
            try:
                answers.setdefault(name, []).append(check())
            except Exception as error:  # noqa: BLE001: an error is an answer too
                db.session.rollback()
                answers.setdefault(name, []).append({"error": type(error).__name__, "~words": str(error)[:500]})
    equal, failed = 0, []
    for name, pair in answers.items():
        bare = [plain({k: v for k, v in a.items() if not k.startswith("~")} if isinstance(a, dict) else a) for a in pair]
        equal += bare[0] == bare[1]
        if bare[0] == bare[1] and '"error": [' in bare[0]:
            failed.append(name)
        if bare[0] != bare[1]:
            at = next((i for i, (a, b) in enumerate(zip(*bare)) if a != b), min(map(len, bare)))
            print(f"DIFFERS {name}\n  expected {bare[0][max(0, at - 80) : at + 200]}\n  got      {bare[1][max(0, at - 80) : at + 200]}", flush=True)
            for key in ("~words", "~sql"):
                if isinstance(pair[1], dict) and pair[1].get(key):
                    print(f"  {key[1:]} {plain(pair[1][key])[:2500]}", flush=True)
    print(f"superset: {equal} of {len(answers)}, {len(failed)} of them errors of both: {', '.join(failed)}")
    return equal == len(answers)


if __name__ == "__main__":
    done = main(sys.argv[1], sys.argv[2], sys.argv[3:])
    sys.stdout.flush()
    os._exit(0 if done else 1)
