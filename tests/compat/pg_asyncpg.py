"""asyncpg loads live tables with COPY in the binary format, which is the only one it knows, and gives rows back."""

import asyncio
import datetime
from decimal import Decimal

import asyncpg

from checks import DATABASE, HOST, PORT, USER, check, run

COLUMNS = "id INT PRIMARY KEY, small SMALLINT, yes BOOLEAN, n DECIMAL(10, 2), r REAL, f DOUBLE, t TEXT, d DATE, s TIMESTAMP, b BYTEA"


def with_connection(work):
    async def within():
        connection = await asyncpg.connect(host=HOST, port=PORT, user=USER, database=DATABASE)
        try:
            return await work(connection)
        finally:
            await connection.close()

    return asyncio.run(within())


@check
def records():
    """copy_records_to_table, of every kind of value"""
    day, moment = datetime.date(1999, 12, 31), datetime.datetime(2026, 11, 21, 22, 30, 15, 123456)
    rows = [(n, n % 7 - 3, n % 2 == 0, Decimal(n) / 4, n / 8, n / 3, f"täxt {n}", day, moment, bytes([n % 256, 0])) for n in range(20000)]
    rows.append((20000,) + (None,) * 9)

    async def work(connection):
        await connection.execute(f"CREATE LIVE TABLE records ({COLUMNS})")
        assert await connection.copy_records_to_table("records", records=rows) == f"COPY {len(rows)}"
        found = await connection.fetch("SELECT * FROM records ORDER BY id")
        for given, back in zip(rows, found, strict=True):
            assert given == tuple(back), (given, back)
        named = await connection.copy_records_to_table("records", records=[("named", -1)], columns=["t", "id"], schema_name="public")
        assert named == "COPY 1"
        assert tuple(await connection.fetchrow("SELECT t, n FROM records WHERE id = -1")) == ("named", None)

    with_connection(work)


@check
def given_up():
    """a load that fails in the middle leaves the connection as it was"""

    async def work(connection):
        await connection.execute("CREATE LIVE TABLE given_up (id INT PRIMARY KEY)")

        async def source():
            yield (1,)
            raise RuntimeError("given up")

        try:
            await connection.copy_records_to_table("given_up", records=source())
        except RuntimeError:
            pass
        else:
            raise AssertionError("the load went on")
        assert await connection.fetchval("SELECT count(*) FROM given_up") == 0

    with_connection(work)


@check
def pools():
    """a pool takes connections back, and arrays are what the text says they are"""

    async def within():
        pool = asyncpg.create_pool(host=HOST, port=PORT, user=USER, database=DATABASE, min_size=1, max_size=2)
        async with pool:
            for _ in range(3):
                async with pool.acquire() as connection:
                    assert await connection.fetchval("SELECT 'c' = ANY($1::text[])", ["a", "c"]) is True
                    assert await connection.fetchval("SELECT 'b' = ANY($1::text[])", ["a", "c"]) is False

    asyncio.run(within())


@check
def columns_that_change():
    """a statement whose columns became others is prepared again"""

    async def work(connection):
        await connection.execute("CREATE LIVE TABLE changing (id INT PRIMARY KEY, v INT)")
        await connection.execute("INSERT INTO changing VALUES (1, 4)")
        assert tuple(await connection.fetchrow("SELECT * FROM changing")) == (1, 4)
        other = await asyncpg.connect(host=HOST, port=PORT, user=USER, database=DATABASE)
        await other.execute("ALTER TABLE changing ADD COLUMN w TEXT")
        await other.close()
        assert tuple(await connection.fetchrow("SELECT * FROM changing")) == (1, 4, None)

    with_connection(work)


@check
def lists():
    """arrays are given and taken, with and without a type in the text"""

    async def work(connection):
        row = await connection.fetchrow("SELECT ARRAY[1, 2], ARRAY[3, NULL]::bigint[], ARRAY[0.5::double], ARRAY['a', 'b,c']")
        assert tuple(row) == ([1, 2], [3, None], [0.5], ["a", "b,c"]), row
        await connection.execute("CREATE LIVE TABLE lists (id INT PRIMARY KEY, t TEXT)")
        await connection.execute("INSERT INTO lists VALUES (1, 'a'), (2, 'b'), (3, NULL)")
        count = "SELECT count(*) FROM lists WHERE "
        for condition, values in [
            ("id = ANY($1::int[])", [1, 3, 5]),
            ("id = ANY($1)", [1, 3, 5]),
            ("t = ANY($1) AND id < 3", ["a", "b,c", "b"]),
        ]:
            assert await connection.fetchval(count + condition, values) == 2, condition
        assert await connection.fetchval(count + "id = ANY($1)", []) == 0

    with_connection(work)


@check
def out():
    """rows are copied out, a wrong query is refused, and the connection goes on"""

    async def work(connection):
        received = bytearray()

        async def take(data):
            received.extend(data)

        query = "SELECT value, CASE WHEN value <> 2 THEN 'n,' || value END FROM generate_series(1, 3) AS s (value) ORDER BY 1"
        done = await connection.copy_from_query(query, output=take, format="csv")
        assert (done, bytes(received)) == ("COPY 3", b'1,"n,1"\n2,\n3,"n,3"\n'), (done, received)
        received.clear()
        done = await connection.copy_from_query("SELECT 7::smallint, NULL", output=take, format="binary")
        row = b"\0\2" + b"\0\0\0\2\0\7" + b"\xff\xff\xff\xff"
        assert (done, bytes(received)) == ("COPY 1", b"PGCOPY\n\xff\r\n\0" + bytes(8) + row + b"\xff\xff")
        try:
            await connection.copy_from_query("SELECT nope", output=take, format="binary")
        except asyncpg.UndefinedColumnError:
            pass
        else:
            raise AssertionError("an unknown column was copied out")
        assert await connection.fetchval("SELECT 1 + 1") == 2

    with_connection(work)


run()
