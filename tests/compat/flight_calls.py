#!/usr/bin/env python3
"""Calls of Flight SQL that drivers do not make, against any server.

Where the server is comes from FLIGHT_URI. Messages are written by hand: field numbers are those of `FlightSql.proto`.
"""

import os

import pyarrow as pa
import pyarrow.flight as flight

from checks import check, run

CLIENT = flight.connect(os.environ["FLIGHT_URI"])
URL = b"type.googleapis.com/arrow.flight.protocol.sql."


def varint(number):
    low, rest = number & 0x7F, number >> 7
    return bytes([low]) if rest == 0 else bytes([low | 0x80]) + varint(rest)


def field(number, content):
    """A field of bytes, a text or a message."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def command(name, *fields):
    return field(1, URL + name.encode()) + field(2, b"".join(fields))


def descriptor(name, *fields):
    return flight.FlightDescriptor.for_command(command(name, *fields))


def put(name, *fields):
    writer, reader = CLIENT.do_put(descriptor(name, *fields), pa.schema([]))
    with writer:
        writer.done_writing()
        return reader.read()


def act(name, body=b""):
    return [result.body.to_pybytes() for result in CLIENT.do_action(flight.Action(name, body))]


def rows(sql):
    info = CLIENT.get_flight_info(descriptor("CommandStatementQuery", field(1, sql.encode())))
    return CLIENT.do_get(info.endpoints[0].ticket).read_all().to_pylist()


def error_of(function, *arguments):
    try:
        function(*arguments)
    except Exception as error:  # noqa: BLE001 (their types differ by the code)
        return str(error)
    raise AssertionError("it was let through")


def equal(found, expected):
    assert found == expected, f"found {found!r}, expected {expected!r}"


def holds(text, *words):
    for word in words:
        assert word in text, f"{word!r} is not in {text!r}"


@check
def schemas():
    """GetSchema tells the columns of a query, which does not run, and of metadata"""
    equal(CLIENT.get_schema(descriptor("CommandStatementQuery", field(1, b"SELECT 1 AS a, 'x' AS b"))).schema.names, ["a", "b"])
    statement = b"CREATE TABLE never_made (k BIGINT PRIMARY KEY)"
    equal(CLIENT.get_schema(descriptor("CommandStatementQuery", field(1, statement))).schema.names, [])
    equal(rows("SELECT count(*) AS n FROM information_schema.tables WHERE table_name = 'never_made'"), [{"n": 0}])
    equal(CLIENT.get_schema(descriptor("CommandGetCatalogs")).schema.names, ["catalog_name"])


@check
def columns_of_tables():
    """tables are listed with the types that their columns have in SQL"""
    put("CommandStatementUpdate", field(1, b"CREATE TABLE typed (k BIGINT PRIMARY KEY, n NUMERIC(10, 2), z TIMESTAMPTZ)"))
    with_columns = varint(5 << 3) + varint(1)
    info = CLIENT.get_flight_info(descriptor("CommandGetTables", field(3, b"typed"), with_columns))
    [table] = CLIENT.do_get(info.endpoints[0].ticket).read_all().to_pylist()
    columns = {column.name: column.metadata for column in pa.ipc.read_schema(pa.py_buffer(table["table_schema"]))}
    told = b"ARROW:FLIGHT:SQL:"
    equal({name: columns[name][told + b"TYPE_NAME"] for name in "knz"}, {"k": b"bigint", "n": b"numeric", "z": b"timestamp with time zone"})
    equal((columns["n"][told + b"PRECISION"], columns["n"][told + b"SCALE"]), (b"10", b"2"))


@check
def actions():
    """ListActions lists what there is, and nothing else"""
    listed = {action.type for action in CLIENT.list_actions()}
    equal(len(listed), 7)
    assert {"CreatePreparedStatement", "CancelFlightInfo", "CloseSession"} <= listed, listed
    holds(error_of(act, "Invented"), "there is no action `Invented`")
    holds(error_of(act, "ClosePreparedStatement", command("CommandGetCatalogs")), "ActionClosePreparedStatementRequest")


@check
def other_commands():
    """what is no command, or not for the call, is told so"""
    holds(error_of(CLIENT.get_flight_info, flight.FlightDescriptor.for_command(b"\xff\xff")), "no command of Flight SQL")
    holds(error_of(CLIENT.get_flight_info, descriptor("CommandStatementUpdate", field(1, b"SELECT 1"))), "`CommandStatementUpdate`")
    holds(error_of(CLIENT.get_flight_info, descriptor("CommandInvented")), "`CommandInvented`")
    holds(error_of(lambda: CLIENT.do_get(flight.Ticket(command("CommandStatementQuery"))).read_all()), "`CommandStatementQuery`")
    holds(error_of(put, "CommandGetTables"), "`CommandGetTables`")


@check
def transactions():
    """a statement that is to be part of a transaction is refused, as there are none"""
    sql, none, one = field(1, b"CREATE TABLE of_transaction (k BIGINT PRIMARY KEY)"), field(2, b""), field(2, b"tx1")
    refused = (
        lambda: CLIENT.get_flight_info(descriptor("CommandStatementQuery", sql, one)),
        lambda: CLIENT.get_schema(descriptor("CommandStatementQuery", sql, one)),
        lambda: put("CommandStatementUpdate", sql, one),
        lambda: put("CommandStatementIngest", field(2, b"of_transaction"), field(6, b"tx1")),
        lambda: act("CreatePreparedStatement", command("ActionCreatePreparedStatementRequest", sql, one)),
        lambda: act("BeginTransaction", command("ActionBeginTransactionRequest")),
    )
    for call in refused:
        holds(error_of(call), "there are no transactions", "[0A000]")
    equal(rows("SELECT count(*) AS n FROM information_schema.tables WHERE table_name = 'of_transaction'"), [{"n": 0}])
    put("CommandStatementUpdate", sql, none)
    equal(rows("SELECT count(*) AS n FROM of_transaction"), [{"n": 0}])


run()
