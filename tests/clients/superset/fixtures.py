"""The tables of the charts, and the parts that queries of charts are made of."""

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


def simple(function, column, **more):
    return {"expressionType": "SIMPLE", "aggregate": function, "column": {"column_name": column}, "label": f"{function}({column})", **more}


def custom(sql, label=None):
    return {"expressionType": "SQL", "sqlExpression": sql, "label": label or sql}


def axis(column="at", grain="P1M"):
    return {"columnType": "BASE_AXIS", "sqlExpression": column, "label": column, "expressionType": "SQL", "timeGrain": grain, "isColumnReference": True}


def when(column, value="No filter"):
    return {"col": column, "op": "TEMPORAL_RANGE", "val": value}


SUM, COUNT = simple("SUM", "amount"), custom("COUNT(*)", "count")
BASE = {"metrics": [SUM, COUNT], "columns": ["kind"], "row_limit": 10000, "orderby": [[SUM, False]]}
