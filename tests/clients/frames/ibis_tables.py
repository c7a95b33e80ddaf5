"""ibis: tables, views and databases that it makes, fills, renames and drops."""

import importlib

from ibis_queries import connected, memory, show


def checks(ibis, url):
    con, _ = connected(ibis, url), ibis._
    t = lambda: con().table("f_items")

    def create(name, make):
        def run():
            con().drop_table(name, force=True)
            made = make(name)
            return str(made.schema()), sorted(map(str, show(made)))

        return run

    def view():
        con().drop_view("f_ibis_view", force=True)
        v = con().create_view("f_ibis_view", t().filter(_.id < 4).select("id", "kind"))
        again = con().create_view("f_ibis_view", t().filter(_.id < 3).select("id", "kind"), overwrite=True)
        return str(v.schema()), show(again.order_by("id")), "f_ibis_view" in con().list_tables()

    pd = importlib.import_module("pandas")

    def insert():
        con().drop_table("f_ibis_in", force=True)
        con().create_table("f_ibis_in", schema=ibis.schema({"a": "int64", "s": "string"}))
        con().insert("f_ibis_in", [{"a": 1, "s": "x"}])
        con().insert("f_ibis_in", pd.DataFrame({"a": [2], "s": ["y"]}))
        con().insert("f_ibis_in", t().filter(_.id == 3).select(a=_.id.cast("int64"), s=_.kind))
        before = show(con().table("f_ibis_in").order_by("a"))
        con().insert("f_ibis_in", pd.DataFrame({"a": [9], "s": ["z"]}), overwrite=True)
        between = show(con().table("f_ibis_in"))
        con().truncate_table("f_ibis_in")
        return before, between, show(con().table("f_ibis_in"))

    def upsert():
        con().drop_table("f_ibis_up", force=True)
        con().create_table("f_ibis_up", schema=ibis.schema({"a": "int64", "s": "string"}))
        con().insert("f_ibis_up", [{"a": 1, "s": "x"}])
        con().upsert("f_ibis_up", pd.DataFrame({"a": [1, 2], "s": ["n", "m"]}), on="a")
        return show(con().table("f_ibis_up").order_by("a"))

    return {
        "create from expression": create("f_ibis_e", lambda n: con().create_table(n, t().filter(_.id < 3))),
        "create from memory": create("f_ibis_m", lambda n: con().create_table(n, memory())),
        "create from pandas": create("f_ibis_p", lambda n: con().create_table(n, pd.DataFrame({"a": [1, 2], "s": ["x", None], "t": pd.to_datetime(["2024-01-01", None])}))),
        "create overwrite": create("f_ibis_o", lambda n: (con().create_table(n, t().filter(_.id < 3)), con().create_table(n, t().filter(_.id < 2), overwrite=True))[1]),
        "create temporary": create("f_ibis_t", lambda n: con().create_table(n, t().filter(_.id < 3), temp=True)),
        "create schema": create(
            "f_ibis_s",
            lambda n: con().create_table(
                n,
                schema=ibis.schema(
                    {"a": "!int64", "b": "decimal(10, 2)", "c": "timestamp('UTC')", "d": "date", "e": "boolean", "f": "float32", "g": "uuid", "h": "array<int64>", "i": "binary", "j": "json"}
                ),
            ),
        ),
        "view": view,
        "insert": insert,
        "upsert": upsert,
        "rename": lambda: (
            con().drop_table("f_ibis_r2", force=True),
            con().create_table("f_ibis_r1", t().filter(_.id < 2), overwrite=True),
            con().rename_table("f_ibis_r1", "f_ibis_r2"),
            show(con().table("f_ibis_r2")),
        )[-1],
        "database": lambda: (
            con().create_database("f_ibis_db", force=True),
            con().create_table("x", t().filter(_.id < 2), database="f_ibis_db", overwrite=True),
            con().list_tables(database="f_ibis_db"),
            con().drop_table("x", database="f_ibis_db"),
            con().drop_database("f_ibis_db"),
        )[2],
        "cache": lambda: (lambda c: c.count().execute())(t().filter(_.id < 9).cache()),
        "function": lambda: show(t().filter(_.id < 2).select(x=ibis.udf.scalar.builtin(lambda a: None, name="initcap", signature=(("string",), "string"))(_.kind))),
    }
