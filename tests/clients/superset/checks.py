"""The checks of one server, as pairs of a name and a function: connecting, metadata, charts, virtual datasets, SQL Lab, uploads."""

import io

import chart_kinds
import filter_charts
import metric_charts
import pandas
import time_charts
from fixtures import COUNT, SUM, axis, when
from queries import LAB, VIRTUAL
from server import failure


def checks(server):
    for part in (connecting, metadata, charts, virtual_datasets, lab, uploads):
        yield from part(server)


def connecting(server):
    mine = lambda body: [(t["value"], t["type"]) for t in body["result"] if t["value"].startswith("ss_") and t["value"] not in ("ss_upload", "ss_ctas", "ss_cvas")]
    d, public = f"database/{server.id}", "q=(schema_name:public)"
    yield "test connection", lambda: server.call("post", "database/test_connection/", json={"sqlalchemy_uri": server.url, "database_name": server.name})[0]
    yield (
        "test wrong database",
        lambda: [
            e["error_type"]
            for e in server.call("post", "database/test_connection/", json={"sqlalchemy_uri": server.url.rsplit("/", 1)[0] + "/no_such", "database_name": server.name})[1].get("errors", [])
        ],
    )
    yield "catalogs", lambda: server.get(f"{d}/catalogs/?q=(force:!t)", lambda b: "nyala" in b["result"])
    yield "schemas", lambda: server.get(f"{d}/schemas/?q=(force:!t)", lambda b: sorted(s for s in b["result"] if s in ("public", "information_schema")))
    yield "tables", lambda: server.get(f"{d}/tables/?{public}", mine)
    yield "functions", lambda: server.get(f"{d}/function_names/", lambda b: {"date_trunc", "percentile_cont", "now"} <= set(b["function_names"]))


def metadata(server):
    d = f"database/{server.id}"
    for table in ("ss_sales", "ss_view", "ss_shops"):
        yield (
            f"metadata {table}",
            lambda table=table: server.get(f"{d}/table_metadata/?name={table}&schema=public", lambda b: {k: b[k] for k in ("columns", "primaryKey", "foreignKeys", "indexes", "comment")}),
        )
        yield f"select star {table}", lambda table=table: server.get(f"{d}/select_star/{table}/public/")
        yield f"metadata extra {table}", lambda table=table: server.get(f"{d}/table_metadata/extra/?name={table}&schema=public")
        yield (
            f"dataset {table}",
            lambda table=table: server.get(
                f"dataset/{server.dataset(table)}",
                lambda b: [(c["column_name"], c["type"], c["type_generic"], c["is_dttm"]) for c in b["result"]["columns"]] + [m["expression"] for m in b["result"]["metrics"]],
            ),
        )
        yield f"refresh {table}", lambda table=table: server.call("put", f"dataset/{server.dataset(table)}/refresh")[0]
    for column in ("kind", "n", "ok", "day", "at", "amount", "Mixed Case"):
        yield (f"values {column}", lambda column=column: server.get(f"datasource/table/{server.dataset('ss_sales')}/column/{column}/values/", lambda b: sorted(map(str, b["result"]))[:50]))
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
                *server.call("post", f"datasource/table/{server.dataset('ss_sales')}/validate_expression/", json={"expression": e, "expression_type": k})
            ),
        )


def charts(server):
    for kind in (time_charts, filter_charts, metric_charts, chart_kinds):
        for name, query in kind.charts().items():
            yield f"chart {name}", lambda query=query: server.chart(query)
    yield "view", lambda: server.chart({"columns": [axis(), "city"], "metrics": [SUM, COUNT], "row_limit": 10000, "filters": [when("at", "Last year")]}, "ss_view")


def virtual_datasets(server):
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
            yield f"virtual {name} {shape}", lambda query=query, name=name, sql=sql: server.chart(query, "v " + name, sql)
        yield (
            f"virtual {name} columns",
            lambda name=name: server.get(f"dataset/{server.dataset('v ' + name)}", lambda b: sorted((c["column_name"], c["type_generic"], c["is_dttm"]) for c in b["result"]["columns"])),
        )


def lab(server):
    for name, sql in LAB.items():
        yield f"lab {name}", lambda sql=sql: server.lab(sql)
    yield (
        "lab ctas",
        lambda: (
            server.lab("SELECT kind, count(*) AS c FROM ss_sales GROUP BY 1", select_as_cta=True, ctas_method="TABLE", tmp_table_name="ss_ctas") and server.lab("SELECT * FROM ss_ctas ORDER BY 1, 2")
        ),
    )
    yield (
        "lab cvas",
        lambda: (
            server.lab("SELECT kind, count(*) AS c FROM ss_sales GROUP BY 1", select_as_cta=True, ctas_method="VIEW", tmp_table_name="ss_cvas") and server.lab("SELECT * FROM ss_cvas ORDER BY 1, 2")
        ),
    )
    yield (
        "lab estimate",
        lambda: (lambda s, b: (s, [sorted(x) for x in b["result"]]) if s == 200 else failure(b))(
            *server.call("post", "sqllab/estimate/", json={"database_id": server.id, "sql": "SELECT * FROM ss_sales WHERE n > 3", "schema": "public"})
        ),
    )
    yield "lab validate", lambda: server.call("post", f"database/{server.id}/validate_sql/", json={"sql": "SELECT 1", "schema": "public"})[0]


def uploads(server):
    csv = b'i,f,s,b,d,t\n1,1.5,a,true,2024-01-01,2024-01-01 01:02:03\n2,,,false,,\n3,-2,"x,""y",true,2024-02-29,2024-02-29 00:00:00\n'
    yield "upload csv", lambda: server.upload("a.csv", csv, already_exists="replace")
    yield "upload csv dates", lambda: server.upload("a.csv", csv, already_exists="replace", column_dates="d,t", column_data_types='{"i": "int64", "b": "bool"}')
    yield "upload csv append", lambda: server.upload("a.csv", csv, already_exists="append", column_dates="d,t")
    yield "upload csv index", lambda: server.upload("a.csv", csv, already_exists="replace", dataframe_index="true", index_label="k")
    yield "upload csv fails", lambda: server.upload("a.csv", csv, already_exists="fail")
    parquet = io.BytesIO()
    pandas.DataFrame({"i": [1, 2], "f": [0.1, None], "s": ["a", None], "d": pandas.to_datetime(["2024-01-01", None])}).to_parquet(parquet)
    yield "upload parquet", lambda: server.upload("a.parquet", parquet.getvalue(), "columnar", already_exists="replace")
