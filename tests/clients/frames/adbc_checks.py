"""ADBC: values of each type as Arrow, parameters, what its metadata calls find, and errors. Ingestion is in adbc_ingestion.py."""

import datetime as dt
import functools

from fixtures import D, TYPES, VALUES, ZONE


def with_cursor(adbc, url, use):
    def run():
        with adbc.connect(url) as connection, connection.cursor() as cursor:
            return use(connection, cursor)

    return run


def fetch(cursor, sql, parameters=None):
    cursor.execute(sql, parameters)
    table = cursor.fetch_arrow_table()
    return str(table.schema), table.to_pylist()


def checks(adbc, url):
    asked = functools.partial(with_cursor, adbc, url)
    found = {f"type {c}": asked(lambda _, k, c=c: fetch(k, f"SELECT {c} FROM f_types ORDER BY id")) for c in TYPES}
    found |= {f"value {n}": asked(lambda _, k, v=v: fetch(k, f"SELECT {v} AS x")) for n, v in VALUES.items()}
    found |= {f"parameter {n}": asked(lambda _, k, ask=ask: fetch(k, *ask)) for n, ask in PARAMETERS.items()}
    found |= {"many": asked(many), "errors": asked(failing)}
    return found | metadata(asked)


PARAMETERS = {
    "int": ("SELECT id FROM f_types WHERE id = $1", (2,)),
    "text": ("SELECT id FROM f_types WHERE s = $1", ("tea",)),
    "float": ("SELECT id FROM f_types WHERE f < $1", (1.0,)),
    "date": ("SELECT id FROM f_types WHERE d > $1", (dt.date(2000, 1, 1),)),
    "timestamp": ("SELECT id FROM f_types WHERE t = $1", (dt.datetime(2024, 1, 2, 3, 4, 5, 123456),)),
    "zoned": ("SELECT id FROM f_types WHERE z = $1", (dt.datetime(2024, 1, 2, 3, 4, 5, tzinfo=ZONE),)),
    "bool": ("SELECT id FROM f_types WHERE b = $1", (True,)),
    "bytes": ("SELECT id FROM f_types WHERE y = $1", (b"\x01\x02",)),
    "numeric": ("SELECT id FROM f_types WHERE n = $1", (D("12.345"),)),
    "null": ("SELECT id FROM f_types WHERE id = $1", (None,)),
    "limit": ("SELECT id FROM f_types ORDER BY id LIMIT $1 OFFSET $2", (1, 1)),
    "any": ("SELECT id FROM f_types WHERE id = ANY($1) ORDER BY 1", ([1, 3],)),
    "select": ("SELECT $1, $2::int + 1", ("a", 1)),
    "text as int": ("SELECT id FROM f_types WHERE id = $1::int", ("2",)),
    "uuid": ("SELECT id FROM f_types WHERE u = $1", ("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",)),
}


def many(connection, cursor):
    cursor.execute("CREATE TABLE IF NOT EXISTS f_many (a INT, b TEXT)")
    cursor.execute("DELETE FROM f_many")
    cursor.executemany("INSERT INTO f_many VALUES ($1, $2)", [(1, "x"), (2, None)])
    connection.commit()
    return fetch(cursor, "SELECT * FROM f_many ORDER BY 1")


def failing(connection, cursor):
    out = []
    for sql in ("SELECT nope", "SELECT 1/0", "SELECT", "SELECT 1"):
        try:
            cursor.execute(sql)
            out.append(cursor.fetchall())
        except Exception as error:
            out.append(getattr(error, "sqlstate", None))
            connection.rollback()
    return out


def metadata(asked):
    def objects(connection, _):
        found = connection.adbc_get_objects(depth="all", table_name_filter="f_types").read_all().to_pylist()
        return [
            (
                c["catalog_name"],
                s["db_schema_name"],
                t["table_name"],
                t["table_type"],
                sorted((x["ordinal_position"], x["column_name"], x["xdbc_type_name"]) for x in t["table_columns"]),
                [(k["constraint_type"], k["constraint_column_names"]) for k in t["table_constraints"]],
            )
            for c in found
            for s in c["catalog_db_schemas"]
            for t in s["db_schema_tables"]
        ]

    return {
        "objects": asked(objects),
        "schemas": asked(
            lambda c, _: sorted(
                s["db_schema_name"]
                for x in c.adbc_get_objects(depth="db_schemas", catalog_filter="nyala").read_all().to_pylist()
                for s in x["catalog_db_schemas"]
                if s["db_schema_name"] in ("public", "information_schema", "pg_catalog")
            )
        ),
        "catalogs": asked(lambda c, _: "nyala" in [x["catalog_name"] for x in c.adbc_get_objects(depth="catalogs").read_all().to_pylist()]),
        "tables": asked(
            lambda c, _: sorted(
                (t["table_name"], t["table_type"])
                for x in c.adbc_get_objects(depth="tables", db_schema_filter="public", table_name_filter="f_%").read_all().to_pylist()
                for s in x["catalog_db_schemas"]
                for t in s["db_schema_tables"]
                if t["table_name"] in ("f_types", "f_items", "f_empty")
            )
        ),
        "table schema": asked(lambda c, _: str(c.adbc_get_table_schema("f_types"))),
        "table schema in": asked(lambda c, _: str(c.adbc_get_table_schema("f_items", db_schema_filter="public"))),
        "table schema missing": asked(lambda c, _: str(c.adbc_get_table_schema("no_such"))),
        "info": asked(lambda c, _: c.adbc_get_info()["vendor_name"]),
        "current": asked(lambda c, _: (c.adbc_current_catalog, c.adbc_current_db_schema)),
        "execute schema": asked(lambda _, k: str(k.adbc_execute_schema("SELECT * FROM f_types"))),
        "statistics": asked(lambda c, _: c.adbc_connection.get_statistics("nyala", "public", "f_items", True) is not None),
    }
