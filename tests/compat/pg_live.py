"""psycopg writes to live tables as programs do: with parameters, giving rows back, in blocks, in batches, with COPY."""

import datetime
from decimal import Decimal

import psycopg
from psycopg import errors

from checks import DATABASE, HOST, PORT, USER, check, run


def connect(**more):
    return psycopg.connect(host=HOST, port=PORT, user=USER, dbname=DATABASE, **more)


@check
def parameters():
    """INSERT, UPDATE and DELETE take parameters and tell how many rows there were"""
    with connect(autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO people (id, name, score) VALUES (%s, %s, %s)", (1, "Ada", 1.5))
        assert (cursor.rowcount, cursor.statusmessage) == (1, "INSERT 0 1")
        cursor.execute("UPDATE people SET score = score + %s WHERE id = %s", (1, 1))
        assert (cursor.rowcount, cursor.statusmessage) == (1, "UPDATE 1")
        cursor.execute("SELECT name, score FROM people WHERE id = %s", (1,))
        assert cursor.fetchall() == [("Ada", 2.5)]
        cursor.execute("DELETE FROM people WHERE name = %s", ("Ada",))
        assert (cursor.rowcount, cursor.statusmessage) == (1, "DELETE 1")


@check
def returning():
    """RETURNING gives rows back, in the extended and the simple protocol and from prepared statements"""
    with connect(autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO people (id, name) VALUES (%s, %s), (%s, %s) RETURNING id, upper(name) AS up", (7, "g", 8, "h"))
        assert (cursor.rowcount, cursor.statusmessage) == (2, "INSERT 0 2")
        assert [column.name for column in cursor.description] == ["id", "up"]
        assert cursor.fetchall() == [(7, "G"), (8, "H")]
        for score in range(10):
            cursor.execute("UPDATE people SET score = %s WHERE id = %s RETURNING score, name", (score, 7), prepare=True)
            assert cursor.fetchall() == [(score, "g")]
        cursor.execute("UPDATE people SET score = n.v FROM (VALUES (7, %s), (8, %s)) AS n (id, v) WHERE people.id = n.id", (70.0, 80.0))
        assert (cursor.rowcount, cursor.statusmessage) == (2, "UPDATE 2")
        cursor.executemany("INSERT INTO people (id, name) VALUES (%s, %s) RETURNING id", [(n, "m") for n in (9, 10)], returning=True)
        assert [result.fetchone() for result in cursor.results()] == [(9,), (10,)]
        cursor.execute("UPDATE people SET name = 'x' WHERE id = 12345 RETURNING id", (), prepare=True)
        assert (cursor.statusmessage, cursor.fetchall()) == ("UPDATE 0", [])
    with connect(autocommit=True, cursor_factory=psycopg.ClientCursor) as connection, connection.cursor() as cursor:
        cursor.execute("DELETE FROM people WHERE id < %s RETURNING id, score", (11,))
        assert (cursor.rowcount, cursor.statusmessage) == (4, "DELETE 4")
        assert sorted(cursor.fetchall(), key=str) == [(10, None), (7, 70.0), (8, 80.0), (9, None)]


@check
def described_only():
    """a statement that is described is not run by that"""
    with connect(autocommit=True) as connection:
        connection.pgconn.prepare(b"draw", b"INSERT INTO people (id, name) VALUES ($1, 'z') RETURNING id")
        described = connection.pgconn.describe_prepared(b"draw")
        assert (described.nfields, described.fname(0)) == (1, b"id")
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM people WHERE name = 'z'")
            assert cursor.fetchone() == (0,)


@check
def batches():
    """executemany and prepared statements"""
    with connect(autocommit=True) as connection, connection.cursor() as cursor:
        cursor.executemany("INSERT INTO people (id, name) VALUES (%s, %s)", [(n, f"n{n}") for n in range(200)])
        for n in range(20):
            cursor.execute("UPDATE people SET score = %s WHERE id = %s", (n, n), prepare=True)
        cursor.execute("SELECT count(*), sum(score) FROM people")
        assert cursor.fetchall() == [(200, 190.0)]


@check
def blocks():
    """within BEGIN and COMMIT"""
    with connect() as connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO people (id, name) VALUES (1000, 'x')")
        cursor.execute("SELECT name FROM people WHERE id = 1000")
        assert cursor.fetchall() == [("x",)]
        connection.commit()
        warnings = []
        connection.add_notice_handler(lambda notice: warnings.append(notice.message_primary))
        cursor.execute("DELETE FROM people WHERE id = 1000")
        connection.rollback()
        assert "stays" in warnings[0], warnings
        cursor.execute("SELECT count(*) FROM people WHERE id = 1000")
        assert cursor.fetchone() == (0,)


@check
def copying():
    """COPY by rows and by blocks, and one that is given up"""
    with connect(autocommit=True) as connection, connection.cursor() as cursor:
        with cursor.copy("COPY people (id, name, score) FROM STDIN") as copy:
            for n in range(2000, 2100):
                copy.write_row((n, f"tab\there {n}", None))
        assert cursor.rowcount == 100
        cursor.execute("SELECT count(*) FROM people WHERE name LIKE 'tab\there%' AND score IS NULL")
        assert cursor.fetchone() == (100,)
        try:
            with cursor.copy("COPY people (id) FROM STDIN") as copy:
                copy.write_row((5000,))
                raise RuntimeError("given up")
        except RuntimeError:
            pass
        cursor.execute("SELECT count(*) FROM people WHERE id = 5000")
        assert cursor.fetchone() == (0,)


@check
def binary_copying():
    """COPY in the binary format, of every kind of value"""
    columns = "id INT PRIMARY KEY, small SMALLINT, yes BOOLEAN, n DECIMAL(10, 2), r REAL, f DOUBLE, t TEXT, d DATE, s TIMESTAMP, b BYTEA"
    types = ["int4", "int2", "bool", "numeric", "float4", "float8", "text", "date", "timestamp", "bytea"]
    day, moment = datetime.date(1999, 12, 31), datetime.datetime(2026, 11, 21, 22, 30, 15, 123456)
    rows = [(n, n % 7 - 3, n % 2 == 0, Decimal(n) / 4, n / 8, n / 3, f"täxt {n}", day, moment, bytes([n % 256, 0])) for n in range(20000)]
    rows.append((20000,) + (None,) * 9)
    with connect(autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE LIVE TABLE kinds ({columns})")
        with cursor.copy("COPY kinds FROM STDIN (FORMAT binary)") as copy:
            copy.set_types(types)
            for row in rows:
                copy.write_row(row)
        assert cursor.rowcount == len(rows), cursor.rowcount
        cursor.execute("SELECT * FROM kinds ORDER BY id")
        found = cursor.fetchall()
        for given, back in zip(rows, found, strict=True):
            assert tuple(given) == tuple(back), (given, back)
        for bad in [lambda copy: copy.write(b"PGCOPY\n\xff\r\n\x00" + bytes(8) + b"\x00\x01"), lambda copy: copy.write(b"nonsense")]:
            try:
                with cursor.copy("COPY kinds FROM STDIN (FORMAT binary)") as copy:
                    bad(copy)
            except errors.DataException:
                pass
            else:
                raise AssertionError("nonsense was loaded")
        with cursor.copy("COPY kinds (t, id) FROM STDIN (FORMAT binary, LABEL 'once')") as copy:
            copy.set_types(["text", "int4"])
            copy.write_row(("named", -1))
        cursor.execute("SELECT t, n FROM kinds WHERE id = -1")
        assert cursor.fetchall() == [("named", None)]


@check
def conflicts():
    """a row that was changed meanwhile is a serialization failure"""
    with connect(autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO people (id, name) VALUES (1, 'Ada')")
        try:
            cursor.execute("INSERT INTO people (id, name, _version) VALUES (1, 'Bo', 0)")
        except errors.SerializationFailure:
            pass
        else:
            raise AssertionError("the row was replaced")


@check
def nulls():
    """NULL where none is allowed is an integrity error"""
    with connect(autocommit=True) as connection, connection.cursor() as cursor:
        try:
            cursor.execute("INSERT INTO people (id) VALUES (NULL)")
        except errors.NotNullViolation:
            pass
        else:
            raise AssertionError("a key was NULL")


run()
