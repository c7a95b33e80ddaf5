"""psycopg: values of each type as parameters and as answers, in text and in binary, and its kinds of cursors and rows."""

import datetime as dt
import math
import uuid

from fixtures import D, VALUES, ZONE


def checks(psycopg, url):
    connect = lambda **o: psycopg.connect(url, **o)

    def binary():
        with connect() as c, c.cursor(binary=True) as k:
            return k.execute("SELECT * FROM f_types ORDER BY id").fetchall()

    def values(binary=None):
        out = []
        with connect(autocommit=True) as c:
            for v in (
                D("1.50"),
                D("NaN"),
                D(10) ** 25,
                dt.time(1, 2, 3),
                dt.timedelta(days=1, hours=2, microseconds=5),
                [1, 2],
                ["a", None],
                [],
                [1.5],
                [D("1.5")],
                [dt.date(2024, 1, 1)],
                [[1, 2], [3, 4]],
                uuid.UUID(int=5),
                dt.date(2024, 1, 1),
                dt.datetime(2024, 1, 1, 1, 1, 1),
                dt.datetime(2024, 1, 1, tzinfo=ZONE),
                b"x\0",
                True,
                1.5,
                math.nan,
                math.inf,
                "t",
                "ä'\"\\",
                2**40,
                2**70,
                -1,
                None,
            ):
                try:
                    out.append(c.execute("SELECT " + ("%b" if binary else "%s"), [v], binary=binary).fetchone()[0])
                except psycopg.Error as error:
                    out.append(error.sqlstate)
        return out

    def json():
        from psycopg.types.json import Json, Jsonb

        with connect(autocommit=True) as c:
            return c.execute("SELECT %s, %s, %s::jsonb ->> 'a'", [Json({"a": 1}), Jsonb([1, None]), Jsonb({"a": "x"})]).fetchall()

    def description():
        with connect() as c:
            k = c.execute("SELECT * FROM f_types, f_items LIMIT 0")
            return [(d.name, d.type_code, d.internal_size, d.precision, d.scale) for d in k.description]

    def infos():
        from psycopg.types import TypeInfo

        with connect() as c:
            return [
                (lambda i: i and (i.name, i.oid, i.array_oid, i.regtype))(TypeInfo.fetch(c, n))
                for n in ("int4", "numeric", "timestamptz", "timestamp with time zone", "text[]", "uuid", "jsonb", "nope")
            ]

    def composed():
        sql = psycopg.sql
        with connect() as c:
            return c.execute(
                sql.SQL("SELECT {} FROM {} WHERE {} = {} ORDER BY 1").format(
                    sql.SQL(", ").join(map(sql.Identifier, ["id", "kind"])), sql.Identifier("public", "f_items"), sql.Identifier("id"), sql.Literal(5)
                )
            ).fetchall(), c.execute("SELECT %(a)s::int, %(a)s::text, 5 %% 3", {"a": "1"}).fetchall()

    def client_cursor():
        with psycopg.connect(url, cursor_factory=psycopg.ClientCursor) as c:
            return c.execute("SELECT %s, %s, %s, %s, %s", [1, "a'b\\", dt.date(2024, 1, 1), [1, 2], D("1.5")]).fetchall(), c.execute("SELECT 1; SELECT 2").nextset()

    def raw_cursor():
        with psycopg.connect(url, cursor_factory=psycopg.RawCursor) as c:
            return c.execute("SELECT id FROM f_items WHERE id BETWEEN $1 AND $2 ORDER BY 1", [3, 5]).fetchall()

    def row_kinds():
        from psycopg import rows as kinds

        with connect() as c:
            return [c.cursor(row_factory=f).execute('SELECT id, s AS "S x" FROM f_types ORDER BY id LIMIT 1').fetchall() for f in (kinds.dict_row, kinds.namedtuple_row)]

    found = {check.__name__: check for check in (binary, values, json, description, infos, composed, client_cursor, raw_cursor, row_kinds)}
    found["values binary"] = lambda: values(True)
    found |= {f"value {n}": (lambda v=v: (lambda k: (k.description[0].type_code, k.fetchall()))(psycopg.connect(url).execute(f"SELECT {v}"))) for n, v in VALUES.items()}
    return found | {f"binary {n}": (lambda v=v: psycopg.connect(url).execute(f"SELECT {v}", binary=True).fetchall()) for n, v in VALUES.items()}
