"""psycopg: COPY in each direction and format, and what its errors say."""

import datetime as dt
import math

from fixtures import D, ZONE


def checks(psycopg, url):
    connect = lambda **o: psycopg.connect(url, **o)

    def copy_in():
        with connect() as c, c.cursor() as k:
            k.execute("CREATE TEMP TABLE p (a INT, b TEXT, d DATE, t TIMESTAMPTZ, n NUMERIC(10,2), f FLOAT8, o BOOLEAN)")
            rows_ = [
                (1, "a\tb\\\n", dt.date(2024, 1, 1), dt.datetime(2024, 1, 1, tzinfo=ZONE), D("1.25"), 1.5, True),
                (2, None, None, None, None, None, None),
                (3, "\\N", dt.date(1, 1, 1), None, D("-1"), math.inf, False),
            ]
            with k.copy("COPY p FROM STDIN") as copy:
                for row in rows_:
                    copy.write_row(row)
            with k.copy("COPY p FROM STDIN (FORMAT binary)") as copy:
                copy.set_types(["int4", "text", "date", "timestamptz", "numeric", "float8", "bool"])
                for row in rows_:
                    copy.write_row(row)
            with k.copy("COPY p (a, b) FROM STDIN (FORMAT csv, HEADER, NULL 'nil', DELIMITER ';')") as copy:
                copy.write('a;b\n7;nil\n8;"x;y"\n')
            return k.execute("SELECT * FROM p ORDER BY 1, 2").fetchall()

    def copy_out():
        out = []
        with connect() as c, c.cursor() as k:
            for options in ("", "(FORMAT csv, HEADER)", "(FORMAT csv, FORCE_QUOTE *)", "(FORMAT binary)", "(DELIMITER '|', NULL '-')"):
                with k.copy(f"COPY (SELECT id, s, v, d, t, n, b, y, u FROM f_types ORDER BY id) TO STDOUT {options}") as copy:
                    out.append(b"".join(bytes(b) for b in copy))
            with k.copy("COPY f_types (id, i8, z) TO STDOUT (FORMAT binary)") as copy:
                copy.set_types(["int4", "int8", "timestamptz"])
                out.append(sorted(map(str, copy.rows())))
        return out

    def copy_error():
        out = []
        with connect(autocommit=True) as c, c.cursor() as k:
            k.execute("CREATE TEMP TABLE p (a INT)")
            for sql, data in (("COPY p FROM STDIN", "1\nx\n"), ("COPY p FROM STDIN", "1\t2\n"), ("COPY nope FROM STDIN", "1\n"), ("COPY p (b) FROM STDIN", "1\n")):
                try:
                    with k.copy(sql) as copy:
                        copy.write(data)
                except psycopg.Error as error:
                    out.append((error.sqlstate, bool(error.diag.context)))
            try:
                with k.copy("COPY p FROM STDIN") as copy:
                    copy.write("1\n")
                    raise KeyError("stop")
            except KeyError:
                pass
            return out, k.execute("SELECT count(*) FROM p").fetchall()

    return {check.__name__: check for check in (copy_in, copy_out, copy_error)}
