#!/usr/bin/env python3
"""kylinpy, in both dialects of Kylin's API, against a server that has the Star Schema Benchmark tables and their cube.

Where the server is comes from HTTPHOST and HTTPPORT.
"""

import datetime
import os
import time

from kylinpy.exceptions import KylinQueryError
from kylinpy.kylindb import Connection

from checks import check, run

HOST, PORT = os.environ["HTTPHOST"], int(os.environ["HTTPPORT"])
OLD = Connection.connect(host=HOST, port=PORT, project="nyala", username="compat", password="x")
NEW = Connection.connect(host=HOST, port=PORT, project="nyala", username="compat", password="x", version="v4")
TABLES = {"customer", "dates", "lineorder", "part", "supplier"}


def equal(found, expected):
    assert found == expected, f"found {found!r}, expected {expected!r}"


def rows(connection, sql, **more):
    cursor = connection.cursor()
    cursor.execute(sql, more)
    return cursor.fetchall()


@check
def logging_in():
    """both dialects log in and see projects"""
    for connection in (OLD, NEW):
        assert connection.service.get_authentication()
    names = {project["name"] for project in OLD.projects()}
    assert {"nyala", "public"} <= names, names


@check
def tables_and_columns():
    """tables and columns are listed, in a project that is a schema, too"""
    for connection in (OLD, NEW):
        assert TABLES <= set(connection.get_all_tables("public")), connection.get_all_tables("public")
        assert "public" in connection.get_all_schemas()
    of_schema = Connection.connect(host=HOST, port=PORT, project="public", username="c", password="x")
    assert TABLES <= set(of_schema.get_all_tables("public"))
    columns = dict(OLD.service.tables_and_columns()["public.lineorder"]["columns"])
    assert "lo_revenue" in columns, columns


@check
def values():
    """values of all types come as Python's"""
    sql = (
        "SELECT 7, 2.5e0, CAST(1.25 AS DECIMAL(10, 2)), 'text', '', NULL, true, DATE '1997-03-31', "
        "TIMESTAMP '1997-03-31 23:59:58.5'"
    )
    for connection in (OLD, NEW):
        [row] = rows(connection, sql)
        equal(row[:6], (7, 2.5, 1.25, "text", "", None))
        equal(str(row[6]).lower(), "true")
        equal(row[7], datetime.date(1997, 3, 31))
        # It leaves the fraction out.
        equal(row[8], datetime.datetime(1997, 3, 31, 23, 59, 58))


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
    for connection in (OLD, NEW):
        try:
            rows(connection, "SELECT nothing FROM nowhere")
        except KylinQueryError as error:
            assert "nowhere" in str(error), error
        else:
            raise AssertionError("it should have failed")


@check
def cubes_and_jobs():
    """cubes are listed, refreshed, and their jobs followed"""
    names = {cube["name"] for cube in OLD.service.cubes()}
    assert "ssb" in names, names
    job = OLD.service.build("ssb", "REFRESH", 0, 0)
    for _ in range(600):
        state = OLD.service.job_desc(job["uuid"])["job_status"]
        if state != "RUNNING":
            break
        time.sleep(0.1)
    equal(state, "FINISHED")
    assert any(known["uuid"] == job["uuid"] for known in OLD.service.jobs())
    assert "ssb" in {model["alias"] for model in NEW.service.models()}


run()
