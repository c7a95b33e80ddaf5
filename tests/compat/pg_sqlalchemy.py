#!/usr/bin/env python3
"""SQLAlchemy 2.1 over psycopg 3 against a server that has the Star Schema Benchmark tables.

Where the server is comes from PGHOST, PGPORT, PGUSER and PGDATABASE.
"""

from sqlalchemy import MetaData, Table, create_engine, func, inspect, select, text
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.pool import NullPool

from checks import DATABASE, HOST, PORT, USER, check, run

URL = f"postgresql+psycopg://{USER}@{HOST}:{PORT}/{DATABASE}"
ENGINE = create_engine(URL, poolclass=NullPool)
TABLES = {"customer", "dates", "lineorder", "part", "supplier"}


def equal(found, expected):
    assert found == expected, f"found {found!r}, expected {expected!r}"


@check
def connecting():
    """connecting reads version, schema and isolation level"""
    with ENGINE.connect() as connection:
        equal(connection.dialect.server_version_info[:1], (15,))
        equal(connection.dialect.default_schema_name, "public")
        equal(connection.get_isolation_level(), "READ COMMITTED")
        equal(connection.execute(text("SELECT 1")).scalar_one(), 1)


@check
def table_names():
    """schemas and tables"""
    inspector = inspect(ENGINE)
    assert "public" in inspector.get_schema_names()
    assert TABLES <= set(inspector.get_table_names()), inspector.get_table_names()
    # The tables that tell of the server are views; none is of the user.
    equal(TABLES & set(inspector.get_view_names()), set())
    assert inspector.has_table("dates")
    assert not inspector.has_table("no_such_table")


@check
def columns():
    """columns with types"""
    found = {column["name"]: column for column in inspect(ENGINE).get_columns("lineorder")}
    assert {"lo_orderkey", "lo_orderdate", "lo_revenue"} <= set(found), found
    for column in found.values():
        assert str(column["type"]), column


@check
def constraints():
    """keys, indexes and comments: there are none"""
    inspector = inspect(ENGINE)
    equal(inspector.get_pk_constraint("dates")["constrained_columns"], [])
    equal(inspector.get_foreign_keys("lineorder"), [])
    equal(inspector.get_unique_constraints("dates"), [])
    equal(inspector.get_check_constraints("dates"), [])
    equal(inspector.get_indexes("dates"), [])
    equal(inspector.get_table_comment("dates"), {"text": None})


@check
def reflection():
    """whole tables are reflected, and queried"""
    metadata = MetaData()
    dates = Table("dates", metadata, autoload_with=ENGINE)
    with ENGINE.connect() as connection:
        query = select(dates.c.d_year, func.count()).where(dates.c.d_year >= 1995).group_by(dates.c.d_year)
        years = connection.execute(query.order_by(dates.c.d_year)).all()
        assert years and years[0][0] == 1995, years


@check
def metadata_reflection():
    """everything at once"""
    metadata = MetaData()
    metadata.reflect(bind=ENGINE)
    assert TABLES <= set(metadata.tables), set(metadata.tables)


@check
def joins():
    """a star join built by SQLAlchemy"""
    metadata = MetaData()
    metadata.reflect(bind=ENGINE, only=["lineorder", "dates"])
    lineorder, dates = metadata.tables["lineorder"], metadata.tables["dates"]
    query = (
        select(dates.c.d_year, func.sum(lineorder.c.lo_revenue).label("revenue"))
        .join(dates, lineorder.c.lo_orderdate == dates.c.d_datekey)
        .group_by(dates.c.d_year)
        .order_by(dates.c.d_year)
        .limit(3)
    )
    with ENGINE.connect() as connection:
        equal(len(connection.execute(query).all()), 3)


@check
def streaming():
    """stream_results reads through a server-side cursor"""
    with ENGINE.connect().execution_options(stream_results=True, max_row_buffer=500) as connection:
        result = connection.execute(text("SELECT lo_orderkey FROM lineorder"))
        equal(sum(1 for _, _ in zip(range(2000), result)), 2000)


@check
def errors():
    """errors come as SQLAlchemy's, and the connection goes on after rollback"""
    with ENGINE.connect() as connection:
        try:
            connection.execute(text("SELECT * FROM no_such_table"))
            raise AssertionError("no error")
        except ProgrammingError as error:
            equal(error.orig.sqlstate, "42P01")
        connection.rollback()
        equal(connection.execute(text("SELECT :x + 1"), {"x": 1}).scalar_one(), 2)


@check
def isolation_levels():
    """isolation levels are accepted"""
    engine = create_engine(URL, poolclass=NullPool, isolation_level="REPEATABLE READ")
    with engine.connect() as connection:
        equal(connection.execute(text("SELECT 1")).scalar_one(), 1)
    autocommit = create_engine(URL, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    with autocommit.connect() as connection:
        equal(connection.execute(text("SELECT 1")).scalar_one(), 1)


if __name__ == "__main__":
    run()
