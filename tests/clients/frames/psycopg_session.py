"""psycopg: pipelines, cursors, transactions, notices, cancellation, and what a connection tells of its server."""

import datetime as dt
import threading
import time


def checks(psycopg, url):
    connect = lambda **o: psycopg.connect(url, **o)

    def pipeline():
        with connect() as c, c.pipeline() as p:
            c.execute("CREATE TEMP TABLE p (a INT)")
            cursors = [c.execute("INSERT INTO p VALUES (%s)", [i]) for i in range(20)]
            p.sync()
            many = c.cursor()
            many.executemany("INSERT INTO p VALUES (%s)", [(i,) for i in range(30)])
            total = c.execute("SELECT count(*), sum(a) FROM p")
            p.sync()
            return sum(k.rowcount for k in cursors), many.rowcount, total.fetchall()

    def pipeline_error():
        out = []
        with connect(autocommit=True) as c:
            try:
                with c.pipeline():
                    c.execute("SELECT 1")
                    c.execute("SELECT 1/0")
                    c.execute("SELECT 2")
            except psycopg.Error as error:
                out.append(error.sqlstate)
            out.append(c.execute("SELECT 3").fetchall())
        return out

    def returning():
        with connect() as c, c.cursor() as k:
            c.execute("CREATE TEMP TABLE p (a INT, b TEXT)")
            k.executemany("INSERT INTO p VALUES (%s, %s) RETURNING a", [(1, "x"), (2, None)], returning=True)
            out = []
            while True:
                out.append(k.fetchall())
                if not k.nextset():
                    return out

    def cursors():
        out = []
        with connect() as c:
            with c.cursor("one") as k:
                k.execute("SELECT id FROM f_items ORDER BY id")
                out += [k.fetchone(), k.fetchmany(3), len(k.fetchall())]
            with c.cursor("two", scrollable=True) as k:
                k.execute("SELECT id FROM f_items ORDER BY id")
                k.scroll(10)
                out.append(k.fetchone())
                k.scroll(-5)
                out.append(k.fetchone())
                k.scroll(99, mode="absolute")
                out.append(k.fetchone())
            with c.cursor("three", withhold=True) as k:
                k.execute("SELECT id FROM f_items ORDER BY id")
                c.commit()
                k.itersize = 7
                out.append(sum(r[0] for r in k))
        return out

    def notices():
        got = []
        with connect(autocommit=True) as c:
            c.add_notice_handler(lambda d: got.append((d.severity, d.sqlstate)))
            for sql in (
                "DROP TABLE IF EXISTS no_such",
                "CREATE TABLE IF NOT EXISTS f_items (id INT)",
                "DROP VIEW IF EXISTS no_such",
                "DROP SCHEMA IF EXISTS no_such",
                "CREATE SCHEMA IF NOT EXISTS public",
                "COMMIT",
                "BEGIN; BEGIN; COMMIT",
                "SET client_min_messages = warning; DROP TABLE IF EXISTS no_such",
            ):
                c.execute(sql)
        return got

    def cancel(safe):
        c = connect(autocommit=True)
        timer = threading.Timer(0.7, (lambda: c.cancel_safe(timeout=5)) if safe else c.cancel)
        timer.start()
        began = time.monotonic()
        try:
            c.execute("SELECT count(*) FROM generate_series(1, 200000) a(x), generate_series(1, 200000) b(y) WHERE (a.x + b.y) % 7 = 8")
        except psycopg.Error as error:
            return error.sqlstate, time.monotonic() - began < 5, c.execute("SELECT 1").fetchall()
        finally:
            c.close()

    def timeout():
        with connect(autocommit=True) as c:
            c.execute("SET statement_timeout = '300ms'")
            try:
                c.execute("SELECT count(*) FROM generate_series(1, 200000) a(x), generate_series(1, 200000) b(y) WHERE (a.x + b.y) % 7 = 8")
            except psycopg.Error as error:
                return error.sqlstate

    def prepared():
        with connect(autocommit=True, prepare_threshold=0) as c:
            out = [c.execute("SELECT id, s FROM f_types WHERE id = %s", [i]).fetchall() for i in (1, 2, 3, None)]
            out.append(c.execute("SELECT %s + 1, %s || 'x', %s::date", [1, "a", dt.date(2024, 1, 1)]).fetchall())
            out.append(c.execute("SELECT count(*) FROM pg_prepared_statements").fetchone()[0] > 0)
            return out

    def stream():
        with connect() as c, c.cursor() as k:
            return sum(r[0] for r in k.stream("SELECT id FROM f_items"))

    def transactions():
        out = []
        with connect() as c:
            c.execute("CREATE TEMP TABLE p (a INT)")
            with c.transaction():
                c.execute("INSERT INTO p VALUES (1)")
                try:
                    with c.transaction():
                        c.execute("INSERT INTO p VALUES (2)")
                        c.execute("SELECT 1/0")
                except psycopg.Error as error:
                    out.append(error.sqlstate)
                with c.transaction(force_rollback=True):
                    c.execute("INSERT INTO p VALUES (3)")
            out += [c.execute("SELECT * FROM p").fetchall(), c.info.transaction_status.name]
            c.rollback()
            c.read_only = True
            try:
                c.execute("CREATE TABLE f_no (a INT)")
            except psycopg.Error as error:
                out.append(error.sqlstate)
            c.rollback()
            c.read_only, c.isolation_level = None, psycopg.IsolationLevel.SERIALIZABLE
            out.append(c.execute("SHOW transaction_isolation").fetchone())
        return out

    def info():
        with connect() as c:
            p = lambda n: c.info.parameter_status(n)
            return (
                c.info.dbname,
                c.info.encoding,
                [
                    p(n)
                    for n in (
                        "client_encoding",
                        "DateStyle",
                        "IntervalStyle",
                        "TimeZone",
                        "integer_datetimes",
                        "is_superuser",
                        "server_encoding",
                        "session_authorization",
                        "standard_conforming_strings",
                        "in_hot_standby",
                        "default_transaction_read_only",
                    )
                ],
                c.info.server_version // 10000,
                c.info.status.name,
            )

    def two_phase():
        with connect() as c:
            try:
                c.tpc_begin("f_x")
                c.execute("SELECT 1")
                c.tpc_prepare()
            except psycopg.Error as error:
                return error.sqlstate

    def listen():
        with connect(autocommit=True) as c, connect(autocommit=True) as other:
            c.execute("LISTEN ch")
            other.execute("NOTIFY ch, 'hi'")
            return [(n.channel, n.payload) for n in c.notifies(timeout=1, stop_after=1)]

    named = (pipeline, pipeline_error, returning, cursors, notices, timeout, prepared, stream, transactions, info, two_phase, listen)
    return {check.__name__: check for check in named} | {"cancel": lambda: cancel(False), "cancel_safe": lambda: cancel(True)}
