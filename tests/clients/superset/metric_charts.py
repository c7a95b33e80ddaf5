"""Charts with metrics and dimensions of each kind: simple ones, and SQL as users write it."""

from fixtures import BASE, custom, simple


def charts():
    c = {}
    for function in ("COUNT", "COUNT_DISTINCT", "SUM", "AVG", "MIN", "MAX"):
        for column in ("amount", "n", "big", "ratio") + (("kind", "ok", "day") if function.startswith("COUNT") else ("kind", "day") if function in ("MIN", "MAX") else ()):
            c[f"metric {function} {column}"] = {**BASE, "metrics": [simple(function, column)], "orderby": [["kind", True]]}
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
        c[f"custom {sql}"] = {**BASE, "metrics": [custom(sql, "m")], "orderby": [["kind", True]]}
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
        c[f"dimension {sql}"] = {**BASE, "columns": [custom(sql, "d")], "orderby": []}
    return c
