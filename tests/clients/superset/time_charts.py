"""Charts of each time grain and each time range, over columns of each type of time."""

from fixtures import BASE, axis, simple, when

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
# Every grain is asked of these.
GRAIN_RANGES = ["Last week", "previous calendar month", "Current year", "2024-02-27 : 2024-03-02", "DATETRUNC(DATETIME('today'), month) : now"]


def charts():
    c = {}
    for column in ("at", "day", "seen"):
        for grain in GRAINS:
            c[f"grain {column} {grain}"] = {**BASE, "columns": [axis(column, grain)], "orderby": [], "filters": [when(column, "2024-01-01 : 2024-07-01")]}
        for span in RANGES:
            c[f"range {column} {span}"] = {**BASE, "filters": [when(column, span)]}
        c[f"old granularity {column}"] = {**BASE, "granularity": column, "is_timeseries": True, "columns": [], "orderby": [], "time_range": "Last year", "extras": {"time_grain_sqla": "P1W"}}
        c[f"min max {column}"] = {"metrics": [simple("MIN", column), simple("MAX", column), simple("COUNT_DISTINCT", column)], "columns": []}
    c["epoch"] = {**BASE, "columns": [axis("epoch", "P1M")], "orderby": [], "filters": [when("epoch", "2024-01-01 : 2025-01-01")]}
    for grain in GRAINS:
        for span in GRAIN_RANGES:
            c[f"grain {grain} range {span}"] = {**BASE, "columns": [axis("at", grain), "kind"], "orderby": [], "filters": [when("at", span)], "row_limit": 2000}
    return c
