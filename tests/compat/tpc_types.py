#!/usr/bin/env python3
"""Compares types of columns that PostgreSQL and Nyala give for the queries of TPC-H or TPC-DS, and values as texts.

    tpc_types.py [--values] tpch|tpcds FILES POSTGRES [QUERY …]

POSTGRES is an address such as `postgresql://postgres@127.0.0.1:5432/postgres`; FILES and the server are those of
`tpc_answers.py`. The tables are made in PostgreSQL with the columns that the server tells. Without `--values` they are empty
and no query runs; with it they are filled, which is for a scale of 0.01, and the texts of all values are compared as well, in
the order of the texts. Prints each column that differs, and how often each kind of difference is there.
"""

import collections
import sys
from pathlib import Path

import psycopg

from tpc_answers import ours, peer
from tpc_tables import definitions, table_names


def postgres(address, nyala, files, benchmark, filled):
    connection = psycopg.connect(address, autocommit=True, client_encoding="utf8")
    connection.execute(f"DROP SCHEMA IF EXISTS {benchmark} CASCADE")
    connection.execute(f"CREATE SCHEMA {benchmark}")
    connection.execute(f"SET search_path = {benchmark}")
    [schema] = nyala.execute("SELECT current_schema()").fetchone()
    for name in table_names(files):
        listed = ", ".join(f"{column} {kind}" for column, kind in definitions(nyala, schema, name))
        connection.execute(f"CREATE TABLE {name} ({listed})")
        if filled:
            copy(nyala, connection, name)
    connection.execute("ANALYZE")
    return connection


def copy(source, target, name):
    with source.cursor().copy(f"COPY (SELECT * FROM {name}) TO STDOUT") as rows:
        with target.cursor().copy(f"COPY {name} FROM STDIN") as into:
            for block in rows:
                into.write(block)


def described(connection, text):
    """Name, type and modifier of each column; or the server's error."""
    prepared = connection.pgconn.prepare(b"", text.encode())
    if prepared.error_message:
        return prepared.error_message.decode().splitlines()[0]
    answer = connection.pgconn.describe_prepared(b"")
    return [(answer.fname(at).decode(), answer.ftype(at), answer.fmod(at)) for at in range(answer.nfields)]


def texts(connection, text):
    """The columns of an answer as the wire has them, of rows in the order of their texts; or the server's error."""
    answer = connection.pgconn.exec_(text.encode())
    if answer.error_message:
        return answer.error_message.decode().splitlines()[0]
    rows = [[answer.get_value(row, at) or b"NULL" for at in range(answer.nfields)] for row in range(answer.ntuples)]
    return sorted(rows)


def kind_of(connection, their, our):
    """What differs of two columns: the type, or the modifier alone."""
    spelled = lambda column: connection.execute(f"SELECT format_type({column[1]}::oid, {column[2]})::text").fetchone()[0]
    return f"{spelled(their)} is {spelled(our)}"


def compare_types(number, theirs, found, connection):
    """A line for each column that differs, and the kinds."""
    for their, our in zip(theirs, found, strict=True):
        if their[0] != our[0]:
            yield "title", f"the column `{their[0]}` is named `{our[0]}`"
        if their[1] != our[1]:
            yield kind_of(connection, their, our), f"{their[0]}: {kind_of(connection, their, our)}"
        elif their[2] != our[2]:
            yield "modifier: " + kind_of(connection, their, our), None


def compare_values(columns, theirs, found):
    if isinstance(theirs, str) or isinstance(found, str) or len(theirs) != len(found):
        yield "rows", f"PostgreSQL: {summary(theirs)}; Nyala: {summary(found)}"
        return
    for at, (name, _, _) in enumerate(columns):
        pair = next(((a[at], b[at]) for a, b in zip(theirs, found) if a[at] != b[at]), None)
        if pair:
            yield "texts", f"{name}: `{pair[0].decode()}` is `{pair[1].decode()}`"


def outcome(columns):
    return columns if isinstance(columns, str) else f"{len(columns)} columns"


def summary(answer):
    return answer if isinstance(answer, str) else f"{len(answer)} rows"


def main(filled, benchmark, files, address, wanted):
    files = Path(files).resolve()
    _, queries = peer(files, benchmark)
    nyala = ours(files, False)
    other = postgres(address, nyala, files, benchmark, filled)
    kinds, compared = collections.Counter(), 0
    for number, text in queries:
        if wanted and str(number) not in wanted:
            continue
        theirs, found = described(other, text), described(nyala, text)
        if isinstance(theirs, str) or isinstance(found, str):
            print(f"{benchmark} {number:>2} PostgreSQL: {outcome(theirs)}; Nyala: {outcome(found)}")
            continue
        compared += len(theirs)
        lines = list(compare_types(number, theirs, found, other))
        if filled:
            lines += compare_values(theirs, texts(other, text), texts(nyala, text))
        for kind, line in lines:
            kinds[kind] += 1
            if line:
                print(f"{benchmark} {number:>2} {line}", flush=True)
    for kind, times in kinds.most_common():
        print(f"{times:>4} {kind}")
    print(f"{compared} columns compared")


if __name__ == "__main__":
    arguments = [argument for argument in sys.argv[1:] if argument != "--values"]
    if len(arguments) < 3 or arguments[0] not in ("tpch", "tpcds"):
        sys.exit(__doc__)
    main("--values" in sys.argv, arguments[0], arguments[1], arguments[2], arguments[3:])
