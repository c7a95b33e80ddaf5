#!/usr/bin/env python3
"""What clients may send at a time, against a server whose `server.max_flight_receive_bytes` is 1 MiB. Where it is comes from FLIGHT_URI."""

import os

import adbc_driver_flightsql.dbapi as flight
import adbc_driver_manager
import pyarrow as pa

from checks import check, run

DATA = pa.table({"id": pa.array(range(1_000_000), pa.int64())})


def connect():
    return flight.connect(os.environ["FLIGHT_URI"], autocommit=True)


def ingest(data, mode):
    with connect() as connection, connection.cursor() as cursor:
        return cursor.adbc_ingest("sent", data, mode=mode)


def count():
    with connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM sent")
        return cursor.fetchone()[0]


def refused(function, *arguments):
    try:
        function(*arguments)
    except (adbc_driver_manager.Error, OSError) as error:
        assert "server.max_flight_receive_bytes" in str(error), error
        return
    raise AssertionError("it was let through")


@check
def batches():
    """a batch beyond the bound is refused, and its load not written; smaller ones are"""
    with connect() as connection, connection.cursor() as cursor:
        cursor.executescript("CREATE TABLE sent (id BIGINT)")
    for _ in range(3):
        refused(ingest, DATA, "append")
    assert count() == 0
    smaller = pa.RecordBatchReader.from_batches(DATA.schema, DATA.to_batches(max_chunksize=50_000))
    assert ingest(smaller, "append") == DATA.num_rows
    assert count() == DATA.num_rows


@check
def values():
    """the values of a batch are bounded, too"""
    with connect() as connection, connection.cursor() as cursor:
        refused(cursor.executemany, "INSERT INTO sent VALUES ($1)", DATA.slice(0, 200_000).to_batches()[0])
        cursor.execute("SELECT 1")
        assert cursor.fetchall() == [(1,)]
    assert count() == DATA.num_rows


run()
