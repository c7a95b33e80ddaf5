"""Charts with each kind of filter."""

from fixtures import BASE


def charts():
    c = {}
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
        c[f"filter {name}"] = {**BASE, "filters": [f]}
    c["filter grain"] = {**BASE, "filters": [{"col": "at", "op": "TEMPORAL_RANGE", "val": "2024-01-01 : 2024-06-01", "grain": "P1M"}]}
    c["where"] = {**BASE, "extras": {"where": "(kind <> 'x' OR kind IS NULL) AND date_part('dow', at) IN (1, 2)"}}
    c["having"] = {**BASE, "extras": {"having": "COUNT(*) > 300 AND SUM(amount) IS NOT NULL"}}
    c["jinja"] = {**BASE, "extras": {"where": "at >= '{{ from_dttm or \"2024-01-01\" }}' AND 1 = {{ 1 if filter_values('kind') else 1 }}"}}
    return c
