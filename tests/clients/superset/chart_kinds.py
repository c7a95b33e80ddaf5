"""Charts as each kind of Superset's charts asks for them: tables, series, comparisons, numbers, distributions."""

from fixtures import BASE, COUNT, SUM, axis, custom, simple, when

PIVOT = {"operation": "pivot", "options": {"index": ["at"], "columns": ["kind"], "aggregates": {"SUM(amount)": {"operator": "mean"}}, "drop_missing_columns": False}}
FLATTEN = {"operation": "flatten"}
BOX = {"operation": "boxplot", "options": {"whisker_type": "tukey", "percentiles": None, "groupby": ["kind"], "metrics": ["SUM(amount)"]}}


def charts():
    """`row_limit` is large enough for whole answers, that are put in order before they are compared."""
    c = {}
    c["table raw"] = {"columns": ["id", "day", "at", "seen", "amount", "n", "big", "ratio", "kind", "ok", "note", "Mixed Case"], "metrics": [], "orderby": [["id", True]], "row_limit": 50}
    c["table page"] = {**c["table raw"], "row_offset": 20, "row_limit": 10}
    c["table rowcount"] = {**c["table raw"], "is_rowcount": True, "row_limit": 0}
    c["table grouped rowcount"] = {**BASE, "is_rowcount": True, "orderby": []}
    c["table order"] = {**c["table raw"], "orderby": [["kind", False], ["amount", True], ["id", True]], "row_limit": 40}
    c["table totals"] = {**BASE, "columns": [], "orderby": []}
    c["table percent"] = {**BASE, "post_processing": [{"operation": "contribution", "options": {"columns": ["SUM(amount)"], "rename_columns": ["%SUM(amount)"]}}]}
    c["time series"] = {**BASE, "columns": [axis(), "kind"], "series_columns": ["kind"], "metrics": [SUM], "post_processing": [PIVOT, FLATTEN]}
    for limited, value in {"series limit": 2, "series limit offset": 3}.items():
        c[limited] = {
            **BASE,
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
            **BASE,
            "columns": [axis(), "kind"],
            "series_columns": ["kind"],
            "metrics": [SUM],
            "time_offsets": [offset],
            "filters": [when("at", "2024-06-01 : 2024-12-01")],
            "orderby": [],
        }
        c[f"compare total {offset}"] = {**BASE, "columns": [axis("day", "P1D")], "metrics": [SUM], "time_offsets": [offset], "filters": [when("day", "2024-06-01 : 2024-07-01")], "orderby": []}
    c["compare two"] = {**c["compare 1 year ago"], "time_offsets": ["1 year ago", "1 month ago"]}
    c["compare table"] = {**BASE, "time_offsets": ["1 year ago"], "filters": [when("at", "2024-06-01 : 2024-12-01")]}
    c["compare kpi"] = {**BASE, "columns": [], "time_offsets": ["1 year ago"], "filters": [when("at", "2024-06-01 : 2024-12-01")], "orderby": []}
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
    c["pivot table"] = {**BASE, "columns": ["kind", "ok", axis("at", "P1Y")], "metrics": [SUM, COUNT], "orderby": []}
    c["box plot"] = {**BASE, "columns": [axis("at", "P1M"), "kind"], "series_columns": ["kind"], "metrics": [SUM], "orderby": [], "post_processing": [BOX]}
    c["histogram"] = {"columns": ["ratio", "kind"], "metrics": [], "row_limit": 10000, "post_processing": [{"operation": "histogram", "options": {"column": "ratio", "groupby": ["kind"], "bins": 5}}]}
    c["bubble"] = {**BASE, "columns": ["shop", "kind"], "metrics": [SUM, simple("AVG", "n"), simple("MAX", "ratio")], "orderby": []}
    c["sankey"] = {**BASE, "columns": ["kind", "shop"], "metrics": [COUNT], "orderby": [[COUNT, False]]}
    c["heatmap"] = {
        **BASE,
        "columns": [custom("EXTRACT(DOW FROM at)", "d"), "shop"],
        "metrics": [COUNT],
        "orderby": [],
        "post_processing": [{"operation": "rank", "options": {"metric": "count", "group_by": "shop"}}],
    }
    c["saved metric"] = {**BASE, "metrics": ["count"], "orderby": [["count", False]]}
    c["order by text"] = {**BASE, "orderby": [["kind", True]], "row_limit": 3}
    c["no rows"] = {**BASE, "filters": [{"col": "n", "op": ">", "val": 99}]}
    c["filter values"] = {"columns": ["kind"], "metrics": [COUNT], "orderby": [["kind", True]], "row_limit": 1000}
    c["filter search"] = {"columns": ["kind"], "metrics": [], "filters": [{"col": "kind", "op": "ILIKE", "val": "%T%"}], "orderby": [["kind", True]], "row_limit": 1000}
    c["filter range"] = {"columns": [], "metrics": [simple("MIN", "ratio", label="min"), simple("MAX", "ratio", label="max")]}
    for kind in ("samples", "drill_detail", "columns", "timegrains", "query"):
        c[f"result {kind}"] = {**BASE, "result_type": kind, "filters": [{"col": "n", "op": "==", "val": 3}] if kind == "drill_detail" else [], "orderby": []}
    return c
