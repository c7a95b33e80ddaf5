#!/usr/bin/env python3
"""kylinpy, in the three dialects of Kylin's API, against a server that has the Star Schema Benchmark tables and their cube.

Where the server is comes from HTTPHOST and HTTPPORT. With KYLIN_USER and KYLIN_PASSWORD they log in, with KYLIN_SSL over TLS.
"""

import datetime
import os
import threading
import time
from contextlib import contextmanager

from kylinpy.client import InternalServerError, NotFoundError, UnauthorizedError
from kylinpy.exceptions import KylinCubeError, KylinJobError, KylinQueryError
from kylinpy.kylindb import Connection

from checks import check, run

SERVER = {
    "host": os.environ["HTTPHOST"],
    "port": int(os.environ["HTTPPORT"]),
    "username": os.environ.get("KYLIN_USER", "compat"),
    "password": os.environ.get("KYLIN_PASSWORD", "x"),
    "is_ssl": "KYLIN_SSL" in os.environ,
}
OLD = Connection.connect(project="nyala", **SERVER)
NEW = Connection.connect(project="nyala", version="v4", **SERVER)
# Of Kyligence 3.
NAMED = Connection.connect(project="nyala", version="v2", **SERVER)
ALL = (OLD, NAMED, NEW)
TABLES = {"customer", "dates", "lineorder", "part", "supplier"}
# Counts for hours without giving a row.
LONG = "SELECT count(*) FROM generate_series(1, 1000000000000) AS t(n) WHERE n % 7 = 8"


def equal(found, expected):
    assert found == expected, f"found {found!r}, expected {expected!r}"


def rows(connection, sql, **more):
    cursor = connection.cursor()
    cursor.execute(sql, more)
    return cursor.fetchall()


def call(connection, method, path, **more):
    """An answer of the API that kylinpy has no function for; what the envelope holds, if there is one."""
    answer = getattr(connection.service.client, method)(path, **more).json()
    return answer if connection is OLD else answer["data"]


def refused(words, function, *arguments, **more):
    try:
        function(*arguments, **more)
    except (InternalServerError, KylinCubeError) as error:
        assert words in str(error), f"no {words!r} in {error}"
    else:
        raise AssertionError("it should have failed")


def until(what, found):
    """The first answer that is something."""
    end = time.monotonic() + 60
    while not (answer := found()):
        assert time.monotonic() < end, f"{what}: not within a minute"
        time.sleep(0.05)
    return answer


def finished(job):
    """Waits for the end of a job."""
    for _ in range(600):
        state = OLD.service.job_desc(job)["job_status"]
        if state != "RUNNING":
            break
        time.sleep(0.1)
    equal(state, "FINISHED")


@contextmanager
def years():
    """A cube with a segment a year, which is dropped afterwards."""
    OLD.query(
        "CREATE CUBE ssb_years PARTITION BY RANGE (lo_orderdate) EVERY INTERVAL '1 year' AS "
        "SELECT lo_discount, sum(lo_tax) FROM lineorder GROUP BY lo_discount"
    )
    try:
        finished(OLD.service.build("ssb_years", "BUILD", 0, 0)["uuid"])
        yield "ssb_years"
    finally:
        OLD.service.drop_cube("ssb_years")


def segments_of(cube):
    """The segments of a cube by name; the same in both dialects."""
    old = call(OLD, "get", f"/cubes/{cube}")["segments"]
    equal(NEW.service.list_segment(cube)["value"], old)
    return {segment["name"]: segment for segment in old}


@check
def logging_in():
    """all dialects log in and see projects"""
    for connection in ALL:
        assert connection.service.get_authentication()["authorities"]
        names = {project["name"] for project in connection.projects()}
        assert {"nyala", "public"} <= names, names


@check
def tables_and_columns():
    """tables and columns are listed, in a project that is a schema, too"""
    for connection in ALL:
        assert TABLES <= set(connection.get_all_tables("public")), connection.get_all_tables("public")
        assert "public" in connection.get_all_schemas()
    of_schema = Connection.connect(project="public", **SERVER)
    assert TABLES <= set(of_schema.get_all_tables("public"))
    columns = dict(OLD.service.tables_and_columns()["public.lineorder"]["columns"])
    assert "lo_revenue" in columns, columns
    for version in ("v1", "v2", "v4"):
        pushed_down = Connection.connect(project="nyala", version=version, is_pushdown=True, **SERVER)
        assert TABLES <= set(pushed_down.get_all_tables("public"))


@check
def values():
    """values of all types come as Python's"""
    sql = (
        "SELECT 7, 2.5e0, CAST(1.25 AS DECIMAL(10, 2)), 'text', '', NULL, true, DATE '1997-03-31', "
        "TIMESTAMP '1997-03-31 23:59:58.5'"
    )
    for connection in ALL:
        [row] = rows(connection, sql)
        equal(row[:6], (7, 2.5, 1.25, "text", "", None))
        equal(str(row[6]).lower(), "true")
        equal(row[7], datetime.date(1997, 3, 31))
        # It leaves the fraction out.
        equal(row[8], datetime.datetime(1997, 3, 31, 23, 59, 58))
        texts = rows(connection, "SELECT CAST('1F1F1F1F1F1F1F1F1F1F1F1F1F1F1F1F' AS UUID), INTERVAL '14 months 1.5 seconds'")
        equal(texts, [("1f1f1f1f-1f1f-1f1f-1f1f-1f1f1f1f1f1f", "1 year 2 mons 00:00:01.5")])


@check
def prepared():
    """the columns of a statement are told without running it, as the ODBC driver asks for them"""
    statement = {"project": "nyala", "params": [], "sql": "SELECT d_year, count(*) AS n FROM dates WHERE d_datekey > ? GROUP BY d_year"}
    for connection in (OLD, NEW):
        answer = call(connection, "post", "/query/prestate", json=statement)
        columns = [(column["label"], column["columnType"]) for column in answer["columnMetas"]]
        equal((columns, answer["results"], answer["isException"]), ([("d_year", 4), ("n", -5)], [], False))


@check
def limits():
    """limit and offset cut the rows"""
    sql = "SELECT d_datekey FROM dates ORDER BY d_datekey"
    all_days = rows(OLD, sql)
    equal(rows(OLD, sql, limit=3, offset=2), all_days[2:5])
    equal(len(rows(NEW, sql, limit=1)), 1)
    equal(rows(OLD, sql + ";", limit=2), all_days[:2])


@check
def names_in_capitals():
    """names in quotes and capitals mean ours in small letters"""
    equal(rows(OLD, 'SELECT count("DATES"."D_DATEKEY") FROM "PUBLIC"."DATES"'), rows(OLD, "SELECT count(*) FROM dates"))
    cursor = NEW.cursor()
    cursor.execute('SELECT "D_YEAR" AS "Year", count(*) AS "Days" FROM "PUBLIC"."DATES" GROUP BY "D_YEAR"')
    equal([column[0] for column in cursor.description], ["Year", "Days"])


@check
def projects_in_capitals():
    """a project in capitals is a schema in small letters"""
    capitals = Connection.connect(project="PUBLIC", **SERVER)
    equal(rows(capitals, "SHOW CREATE CUBE ssb")[0][:2], ("public", "ssb"))
    assert TABLES <= set(capitals.get_all_tables("public"))
    assert "ssb" in {cube["name"] for cube in capitals.service.cubes()}


@check
def times_of_calcite():
    """times are cut and added to as Calcite writes it"""
    sql = (
        "SELECT CAST(FLOOR(CAST(d AS TIMESTAMP) TO MONTH) AS DATE), QUARTER(d), TIMESTAMPADD(WEEK, 1, d) "
        "FROM (SELECT DATE '1997-03-31' AS d) AS t"
    )
    [row] = rows(OLD, sql)
    equal(row[:2], (datetime.date(1997, 3, 1), 1))
    assert str(row[2]).startswith("1997-04-07"), row
    # From the last of March back to the last of December; Monday is the second day of a week.
    sql = (
        "SELECT TIMESTAMPDIFF(DAY, DATE '1997-03-01', d), TIMESTAMPDIFF(MONTH, d, DATE '1996-12-31'), 7 - DAYOFWEEK(d), "
        "{fn UCASE({fn CONVERT(d, SQL_VARCHAR)})}, {fn LOCATE('b', 'abc')} FROM (SELECT DATE '1997-03-31' AS d) AS t"
    )
    equal(rows(NEW, sql), [(30, -3, 5, "1997-03-31", 2)])
    # A Wednesday. Weeks begin on Monday, as in Kylin 5.
    sql = (
        "SELECT CAST(FLOOR(d TO WEEK) AS DATE), CAST(CEIL(d TO WEEK) AS DATE), CAST(CEIL(FLOOR(d TO WEEK) TO WEEK) AS DATE), "
        "CAST(CEIL(d TO QUARTER) AS DATE), CAST(FLOOR(d TO DECADE) AS DATE), CAST(CEIL(d TO CENTURY) AS DATE), CAST(FLOOR(d TO MILLENNIUM) AS DATE) "
        "FROM (SELECT TIMESTAMP '1997-04-02 10:11:59.6' AS d) AS t"
    )
    days = ((1997, 3, 31), (1997, 4, 7), (1997, 3, 31), (1997, 7, 1), (1990, 1, 1), (2001, 1, 1), (1001, 1, 1))
    equal(rows(OLD, sql), [tuple(datetime.date(*day) for day in days)])
    sql = (
        "SELECT WEEK(d), EXTRACT(WEEK FROM d), DAYOFWEEK(d), EXTRACT(DOW FROM d), SECOND(d), EXTRACT(SECOND FROM d), FLOOR(2.5), CEIL(2.5) "
        "FROM (SELECT TIMESTAMP '1997-04-02 10:11:59.6' AS d) AS t"
    )
    equal(rows(NEW, sql), [(14, 14, 4, 4, 59, 59, 2, 3)])
    values = [{"className": "java.lang.Integer", "value": "2"}, {"className": "java.sql.Date", "value": "1997-03-31"}]
    answer = call(OLD, "post", "/query", json={"sql": "SELECT TIMESTAMPADD(DAY, ?, CAST(? AS DATE))", "params": values})
    equal((answer["exceptionMessage"], answer["results"]), (None, [["1997-04-02 00:00:00.000"]]))


@check
def routes():
    """an answer tells the cube that it came from"""
    answer = OLD.query("SELECT d_year, sum(lo_revenue) FROM lineorder JOIN dates ON lo_orderdate = d_datekey GROUP BY d_year")
    equal((answer["isException"], answer["pushDown"]), (False, answer["cube"] == ""))
    answer = OLD.query("SELECT count(*) FROM dates WHERE d_datekey > 0")
    equal((answer["cube"], answer["pushDown"]), ("", True))


@check
def errors():
    """errors arrive with the message alone"""
    for connection in ALL:
        try:
            rows(connection, "SELECT nothing FROM nowhere")
        except KylinQueryError as error:
            assert "nowhere" in str(error), error
        else:
            raise AssertionError("it should have failed")
        try:
            rows(connection, "SELECT 1 / (n - 200000) FROM generate_series(1, 300000) AS s(n)", limit=1000000)
        except KylinQueryError as error:
            assert "zero" in str(error), error
        else:
            raise AssertionError("it should have failed in the middle")


def stopped(connection, method, path):
    """The running query that was stopped; none if there is none, or it has another number already, as while it is prepared."""
    for query in call(OLD, "get", "/query/runningQueries"):
        if query["sql"] == LONG:
            try:
                equal(call(connection, method, path.format(query["queryId"])), None)
            except InternalServerError as error:
                assert "is running" in str(error), error
            else:
                return query
    return None


@check
def running_queries():
    """a running query is listed and stopped, and an ended one is in the history"""
    for connection, method, path in ((OLD, "put", "/query/{}/stop"), (NEW, "delete", "/query/{}")):
        outcome = []

        def ask():
            try:
                outcome.append(connection.query(LONG))
            except KylinQueryError as error:
                outcome.append(error)

        asking = threading.Thread(target=ask)
        asking.start()
        query = until("it is stopped", lambda: stopped(connection, method, path))
        asking.join(60)
        assert len(outcome) == 1 and isinstance(outcome[0], KylinQueryError), outcome
        period = {"project": "nyala", "page_offset": 0, "page_size": 100, "start_time_from": query["startTime"] - 1000}
        history = until("it is in the history", lambda: [q for q in call(NEW, "get", "/query/query_histories", params=period)["query_histories"] if q["query_id"] == query["queryId"]])
        equal((history[0]["sql_text"], history[0]["query_status"], history[0]["index_hit"]), (LONG, "FAILED", False))
    equal(call(NEW, "get", "/query/query_histories", params={"start_time_to": 1}), {"size": 0, "query_histories": []})


@check
def caches():
    """calls that make Kylin forget what it has read are answered"""
    equal(call(OLD, "put", "/cache/cube/ssb/update"), None)
    equal(call(NEW, "put", "/tables/catalog_cache", json={"tables": "PUBLIC.DATES"}), None)
    equal(call(NEW, "delete", "/query/cache"), None)


@check
def cubes_and_jobs():
    """cubes are listed, refreshed, and their jobs followed"""
    names = {cube["name"] for cube in OLD.service.cubes()}
    assert "ssb" in names, names
    job = OLD.service.build("ssb", "REFRESH", 0, 0)
    finished(job["uuid"])
    assert any(known["uuid"] == job["uuid"] for known in OLD.service.jobs())
    for connection in (OLD, NEW):
        equal(connection.get_job(job["uuid"]).status, "FINISHED")
    try:
        NEW.service.job_desc("1000000")
    except KylinJobError:
        pass
    else:
        raise AssertionError("there is no such job")
    ended = {"time_filter": 0, "statuses": ["FINISHED", "ERROR"]}
    equal({known["job_status"] for known in call(NEW, "get", "/jobs", params=ended)["value"]}, {"FINISHED"})
    equal(call(OLD, "get", "/jobs", params={"status": 32, "timeFilter": 4}), [])
    try:
        OLD.get_job(job["uuid"]).pause()
    except NotFoundError as error:
        assert "not one of Kylin's calls" in str(error), error
    else:
        raise AssertionError("jobs cannot be paused")
    assert "ssb" in {model["alias"] for model in NEW.service.models()}


@check
def named_lists():
    """a list of Kyligence 3 is in an object that names it, with how many there are"""
    cubes = call(NAMED, "get", "/cubes", params={"cubeName": "ssb", "projectName": "nyala"})
    equal((cubes["size"], [cube["name"] for cube in cubes["cubes"]]), (1, ["ssb"]))
    assert "ssb" in NAMED.list_datasources()
    assert "public.ssb" in {model["name"] for model in NAMED.service.models()}
    job = OLD.service.build("ssb", "REFRESH", 0, 0)["uuid"]
    finished(job)
    [known] = [known for known in NAMED.service.jobs(pageSize=1000) if known["uuid"] == job]
    equal((known["job_status"], known["project_name"]), ("FINISHED", "public"))
    assert job in {known.job_id for known in NAMED.list_job()}
    one = call(NAMED, "get", "/jobs", params={"pageOffset": 0, "pageSize": 1})
    equal((len(one["jobs"]), one["size"] > 1), (1, True))


@check
def cube_descriptions():
    """a cube is described by its dimensions, measures and grouping sets"""
    described = OLD.service.cube_desc("ssb")
    equal(call(OLD, "get", "/cube_desc/public.ssb"), [described])
    equal(NAMED.service.cube_desc("ssb"), described)
    places = {dimension["name"]: (dimension["table"], dimension["column"]) for dimension in described["dimensions"]}
    equal(len(places), 15)
    equal((places["d_year"], places["lo_discount"]), (("dates", "d_year"), ("lineorder", "lo_discount")))
    functions = {measure["name"]: measure["function"] for measure in described["measures"]}
    column = {"type": "column", "value": "lineorder.lo_revenue", "next_parameter": None}
    equal(
        functions["sum(lineorder.lo_revenue)"],
        {"expression": "SUM", "parameter": column, "returntype": "bigint"},
    )
    one = {"type": "constant", "value": "1", "next_parameter": None}
    equal(functions["count(1)"], {"expression": "COUNT", "parameter": one, "returntype": "bigint"})
    computed = {name: f["parameter"] for name, f in functions.items() if f["parameter"]["type"] == "expression"}
    equal(len(computed), 2)
    assert any("lo_extendedprice" in name and "lo_discount" in name for name in computed), computed
    groups = {tuple(sorted(group["includes"])) for group in described["aggregation_groups"]}
    equal(len(groups), 10)
    assert ("dates.d_year", "lineorder.lo_discount", "lineorder.lo_quantity") in groups, groups
    refused("cube `nothing` does not exist", OLD.service.cube_desc, "nothing")


@check
def sources_of_data():
    """kylinpy takes cubes for sources of data, in all dialects"""
    for connection in ALL:
        source = connection.get_datasource("ssb")
        equal(source.fact_table.fullname, "public.lineorder")
        lookups = {lookup["alias"]: lookup for lookup in source.lookups}
        equal(set(lookups), {"customer", "dates", "part", "supplier"})
        join = {"type": "inner", "primary_key": ["dates.d_datekey"], "foreign_key": ["lineorder.lo_orderdate"]}
        equal((lookups["dates"]["table"], lookups["dates"]["join"]), ("public.dates", join))
        types = {dimension.name: dimension.datatype for dimension in source.dimensions}
        equal((len(types), types["dates.d_year"]), (15, "INTEGER"))
        expressions = {measure.expression for measure in source.measures}
        assert {"SUM (lineorder.lo_revenue)", "COUNT (1)"} <= expressions, expressions


@check
def model_descriptions():
    """a model is described by its tables, dimensions and measures"""
    described = NEW.service.model_desc("ssb")
    equal((described["fact_table"], described["partition_desc"]["partition_date_column"]), ("public.lineorder", None))
    equal({table["alias"] for table in described["join_tables"]}, {"customer", "dates", "part", "supplier"})
    columns = {dimension["name"]: dimension["column"] for dimension in described["dimensions"]}
    equal((columns["p_brand1"], described["computed_columns"]), ("part.p_brand1", []))
    functions = {measure["name"]: measure["function"] for measure in described["measures"]}
    equal(
        functions["sum(lineorder.lo_revenue)"],
        {
            "expression": "SUM",
            "parameters": [{"type": "column", "value": "lineorder.lo_revenue"}],
            "returntype": "bigint",
        },
    )
    refused("does not exist", call, NEW, "get", "/models/other/ssb/model_desc")


@check
def indexes():
    """the cuboids of a cube are the indexes of its model"""
    answer = call(NEW, "get", "/models/ssb/indexes", params={"project": "nyala"})
    equal((answer["project"], answer["model_name"], answer["total_size"]), ("public", "ssb", 10))
    equal(len({index["id"] for index in answer["indexes"]}), 10)
    for index in answer["indexes"]:
        equal(index["status"], "ONLINE")
        assert index["data_size"] > 0, index
        kinds = [column["value"] for column in index["col_order"]]
        equal((kinds[:3], kinds.count("measure")), (["column"] * 3, 4))
    page = call(NEW, "get", "/models/ssb/indexes", params={"page_offset": 1, "page_size": 4})
    equal((page["indexes"], page["offset"], page["limit"], page["total_size"]), (answer["indexes"][4:8], 1, 4, 10))


@check
def statements():
    """the statement of a cube makes it again"""
    sql = call(OLD, "get", "/cubes/ssb/sql")["sql"]
    assert sql.startswith("CREATE CUBE public.ssb AS SELECT d_year"), sql
    equal(rows(OLD, "SHOW CREATE CUBE ssb")[0][2], sql)


@check
def segments():
    """segments are named by the times that their rows lie between"""
    [whole] = segments_of("ssb").values()
    equal((whole["name"], whole["date_range_start"], whole["date_range_end"]), ("FULL_BUILD", 0, 2**63 - 1))
    with years() as cube:
        found = segments_of(cube)
        equal(sorted(found), [f"{year}0101000000_{year + 1}0101000000" for year in range(1992, 1999)])
        first = found["19920101000000_19930101000000"]
        equal((first["date_range_start"], first["date_range_end"]), (694224000000, 725846400000))
        equal(first["status"], "READY")
        period = {"start": first["date_range_start"], "end": first["date_range_end"]}
        equal(call(NEW, "get", f"/models/{cube}/segments", params=period)["value"], [first])


@check
def switches():
    """a cube is switched off and on, in both dialects, and goes on being built"""
    equal(OLD.service.maintain_cube("ssb", "enable")["status"], "READY")

    def is_pushed_down():
        return OLD.query("SELECT lo_discount, sum(lo_tax) FROM lineorder GROUP BY lo_discount")["pushDown"]

    with years() as cube:
        equal(is_pushed_down(), False)
        for _ in range(2):
            equal(OLD.service.maintain_cube(cube, "disable")["status"], "DISABLED")
            equal(is_pushed_down(), True)
        finished(OLD.service.build(cube, "REFRESH", 0, 0)["uuid"])
        equal(is_pushed_down(), True)
        equal(OLD.service.maintain_cube(cube, "enable")["status"], "READY")
        equal(is_pushed_down(), False)
        for status, pushed_down in (("OFFLINE", True), ("ONLINE", False)):
            equal(call(NEW, "put", f"/models/{cube}/status", json={"project": "nyala", "status": status}), "")
            equal(is_pushed_down(), pushed_down)
            [model] = [model for model in NEW.service.models() if model["alias"] == cube]
            equal(model["status"], status)
    refused("neither ONLINE nor OFFLINE", call, NEW, "put", "/models/ssb/status", json={"status": "x"})
    for nothing in ("enable", "disable", "purge"):
        refused("`nothing` does not exist", OLD.service.maintain_cube, "nothing", nothing)


@check
def single_segments():
    """segments are refreshed and merged by number"""
    with years() as cube:
        before = segments_of(cube)
        names = sorted(before)
        ids = [before[name]["id"] for name in names]
        refused("not one range", NEW.service.refresh, cube, [ids[3], ids[5]])
        [job] = NEW.service.refresh(cube, ids[:1])["jobs"]
        finished(job["job_id"])
        after = segments_of(cube)
        equal({name for name in names if after[name]["id"] != before[name]["id"]}, {names[0]})
        [job] = NEW.service.merge(cube, ids[1:3])["jobs"]
        finished(job["job_id"])
        merged = "19930101000000_19950101000000"
        equal(set(segments_of(cube)), {merged, names[0], *names[3:]})


@check
def dropped_segments():
    """segments are deleted by name or number, or all of them, and built again"""
    with years() as cube:
        before = segments_of(cube)
        names = sorted(before)
        equal(len(OLD.service.delete_segment(cube, names[0])["segments"]), 6)
        equal(set(segments_of(cube)), set(names[1:]))
        equal(NEW.service.delete_segment(cube, [before[name]["id"] for name in names[1:3]])["data"], "")
        equal(set(segments_of(cube)), set(names[3:]))
        equal(NEW.service.delete_segment(cube, [], names=names[6])["data"], "")
        equal(set(segments_of(cube)), set(names[3:6]))
        refused(f"no segment `{names[0]}`", OLD.service.delete_segment, cube, names[0])
        refused("name the segments in `ids`", NEW.service.delete_segment, cube, [])
        emptied = OLD.service.maintain_cube(cube, "purge")
        equal((emptied["status"], emptied["segments"]), ("DISABLED", []))
        refused("BUILD CUBE", OLD.service.maintain_cube, cube, "enable")
        [job] = NEW.service.fullbuild(cube)["jobs"]
        finished(job["job_id"])
        equal(set(segments_of(cube)), set(names))
        equal(NEW.service.delete_segment(cube, [], purge="true")["data"], "")
        equal(segments_of(cube), {})


@check
def copies():
    """a copy of a cube has its definition, and is built and dropped for itself"""
    made = OLD.service.maintain_cube("ssb", "clone")
    try:
        equal((made["name"], made["status"], made["segments"]), ("ssb_clone", "DISABLED", []))
        refused("BUILD CUBE", OLD.service.maintain_cube, "ssb_clone", "enable")
        refused("exists", OLD.service.maintain_cube, "ssb", "clone")
        parts = ("dimensions", "measures", "aggregation_groups")
        original, copy = (OLD.service.cube_desc(name) for name in ("ssb", "ssb_clone"))
        equal([copy[part] for part in parts], [original[part] for part in parts])
        [job] = NEW.service.fullbuild("ssb_clone")["jobs"]
        finished(job["job_id"])
        equal(OLD.service.maintain_cube("ssb_clone", "enable")["status"], "READY")
    finally:
        OLD.service.drop_cube("ssb_clone")
    assert "ssb_clone" not in {cube["name"] for cube in OLD.service.cubes()}


if "KYLIN_PASSWORD" in os.environ:

    @check
    def users():
        """a wrong password is told, and a query runs as its own user only"""
        try:
            Connection.connect(project="nyala", **{**SERVER, "password": "wrong"}).projects()
        except UnauthorizedError as error:
            assert "wrong user, password or token" in str(error), error
        else:
            raise AssertionError("the password is wrong")
        for connection in (OLD, NEW):
            query = {"project": "nyala", "sql": "SELECT current_user"}
            equal(connection.service.query("", json=query)["results"], [[SERVER["username"]]])
            try:
                connection.service.query("", json={**query, "executeAs": "somebody"})
            except KylinQueryError as error:
                assert "cannot run as `somebody`" in str(error), error
            else:
                raise AssertionError("it ran as another user")


run()
