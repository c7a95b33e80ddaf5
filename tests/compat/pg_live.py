"""psycopg writes to live tables as programs do: with parameters, in blocks, in batches, with COPY."""

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


run()
