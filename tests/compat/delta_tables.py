#!/usr/bin/env python3
"""Delta tables that delta-rs writes, compared with what delta-rs reads. See README.md for the server."""

import datetime
import json
import pathlib
import shutil
import struct
import tempfile

import psycopg
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from checks import DATABASE, HOST, PORT, USER, check, run

FOLDER = pathlib.Path(tempfile.mkdtemp(prefix="nyala-delta-"))


def connect():
    return psycopg.connect(host=HOST, port=PORT, user=USER, dbname=DATABASE, autocommit=True)


def query(sql):
    with connect() as connection:
        connection.execute("SET nyala.check_files = on")
        connection.execute("SET TIME ZONE 'UTC'")
        found = connection.execute(sql)
        return found.fetchall() if found.description else []


def refused(sql, words):
    try:
        query(sql)
    except psycopg.Error as error:
        text = f"{error} {error.diag.message_hint}"
        assert words in text, text
        return
    raise AssertionError(f"{sql} is not refused")


def create(name, folder, options=""):
    with connect() as connection:
        connection.execute(f"DROP TABLE IF EXISTS {name}")
        connection.execute(f"CREATE EXTERNAL TABLE {name} STORED AS DELTA LOCATION '{FOLDER / folder}/' {options}")


def in_order(rows):
    return sorted(rows, key=repr)


def read_by_delta_rs(folder, version=None):
    table = DeltaTable(FOLDER / folder, version=version)
    names = [field.name for field in table.schema().fields]
    found = pa.table(QueryBuilder().register("t", table).execute("SELECT * FROM t").read_all()).select(names)
    return names, [tuple(row.values()) for row in found.to_pylist()]


def same(name, folder, version=None):
    names, expected = read_by_delta_rs(folder, version)
    columns = ", ".join(f'"{column}"' for column in names)
    found = in_order(query(f"SELECT {columns} FROM {name}"))
    assert found == in_order(expected), f"{name}: found {found[:5]} of {len(found)}, expected {in_order(expected)[:5]} of {len(expected)}"
    assert query(f"SELECT count(*) FROM {name}") == [(len(expected),)]
    return len(expected)


def people(first, last):
    ids = range(first, last)
    return pa.table({
        "id": pa.array(ids, pa.int64()),
        "name": pa.array([None if i % 11 == 3 else f"name-{i}" for i in ids], pa.string()),
        "day": pa.array([datetime.date(2024, 1, 1) + datetime.timedelta(days=i % 400) for i in ids], pa.date32()),
        "at": pa.array([datetime.datetime(2024, 1, 1, 0, 0, i % 60, i, datetime.timezone.utc) for i in ids], pa.timestamp("us", "UTC")),
        "score": pa.array([None if i % 7 == 5 else i * 0.25 for i in ids], pa.float64()),
    })


@check
def versions():
    """appends, deletes, updates, and every version of them"""
    folder = FOLDER / "plain"
    write_deltalake(folder, people(0, 500))
    create("d_plain", "plain")
    assert same("d_plain", "plain") == 500
    write_deltalake(folder, people(500, 900), mode="append")
    assert same("d_plain", "plain") == 900
    DeltaTable(folder).delete("id % 10 = 4")
    DeltaTable(folder).update(predicate="id BETWEEN 100 AND 199", updates={"name": "'updated'"})
    DeltaTable(folder).optimize.compact()
    assert same("d_plain", "plain") == 810
    for version in range(DeltaTable(folder).version() + 1):
        create("d_old", "plain", f"OPTIONS ('version' '{version}')")
        same("d_old", "plain", version)
    commit = (folder / "_delta_log" / f"{1:020}.json").stat().st_mtime
    then = datetime.datetime.fromtimestamp(commit + 0.001, datetime.timezone.utc).isoformat()
    create("d_then", "plain", f"OPTIONS ('timestamp' '{then}')")
    same("d_then", "plain", 1)
    refused(f"CREATE EXTERNAL TABLE d_none STORED AS DELTA LOCATION '{folder}/' OPTIONS ('version' '99')", "cannot read Delta table")
    refused(f"CREATE EXTERNAL TABLE d_none STORED AS DELTA LOCATION '{folder}/' OPTIONS ('has_header' 'true')", "'version' '5'")
    refused(f"CREATE EXTERNAL TABLE d_none (id INT) STORED AS DELTA LOCATION '{folder}/'", "leave the columns")


@check
def cubes():
    """a cube over a Delta table is stale once there is another version"""
    write_deltalake(FOLDER / "facts", people(0, 1000))
    with connect() as connection:
        connection.execute("DROP CUBE IF EXISTS d_cube")
    create("d_facts", "facts")
    total = "SELECT day, sum(score), count(*) FROM d_facts GROUP BY day"
    query("CREATE CUBE d_cube AS SELECT day, sum(score), count(*) FROM d_facts GROUP BY day")
    query("BUILD CUBE d_cube")
    plan = lambda: query("EXPLAIN " + total)[0][1]
    assert plan().startswith("answered from cube"), plan()
    before = in_order(query(total))
    DeltaTable(FOLDER / "facts").delete("id < 10")
    assert plan().startswith("answered from the tables"), plan()
    after = in_order(query(total))
    assert after != before and sum(row[2] for row in after) == 990
    query("BUILD CUBE d_cube")
    assert plan().startswith("answered from cube"), plan()
    assert in_order(query(total)) == after
    query("DROP CUBE d_cube")


@check
def partitions():
    """values of partition columns, NULL and odd letters among them"""
    cities = ["plain", "with space", "a/b", "naïve 東京", "100%", "50%20off", "x=y", "it's", None]
    ids = range(90)
    table = pa.table({
        "id": pa.array(ids, pa.int64()),
        "city": pa.array([cities[i % 9] for i in ids], pa.string()),
        "day": pa.array([None if i % 4 == 3 else datetime.date(1969, 12, 31) + datetime.timedelta(days=i % 4) for i in ids], pa.date32()),
    })
    write_deltalake(FOLDER / "parted", table, partition_by=["city", "day"])
    create("d_parted", "parted")
    assert same("d_parted", "parted") == 90
    assert query("SELECT count(*) FROM d_parted WHERE city = '50%20off'") == [(10,)]
    assert query("SELECT count(*) FROM d_parted WHERE city IS NULL AND day = DATE '1969-12-31'") == [(3,)]


@check
def columns():
    """columns that were added, and columns of other types"""
    folder = FOLDER / "evolved"
    write_deltalake(folder, pa.table({"id": [1, 2], "a": ["x", "y"]}))
    write_deltalake(folder, pa.table({"id": [3], "b": [1.5]}), mode="append", schema_mode="merge")
    create("d_evolved", "evolved")
    same("d_evolved", "evolved")
    write_deltalake(folder, pa.table({"id": ["x"], "b": [1.5]}), mode="overwrite", schema_mode="overwrite")
    refused("SELECT * FROM d_evolved", "drop the table and create it again")
    create("d_evolved", "evolved")
    same("d_evolved", "evolved")


@check
def checkpoints():
    """a checkpoint in place of the first commits, and another table in the same folder"""
    folder = FOLDER / "checkpointed"
    for number in range(12):
        write_deltalake(folder, people(number * 10, number * 10 + 10), mode="append")
    DeltaTable(folder).create_checkpoint()
    for commit in sorted((folder / "_delta_log").glob("*.json"))[:-1]:
        commit.unlink()
    write_deltalake(folder, people(500, 510), mode="append")
    create("d_checkpointed", "checkpointed")
    assert same("d_checkpointed", "checkpointed") == 130
    shutil.rmtree(folder)
    for _ in range(13):
        write_deltalake(folder, people(0, 1), mode="append")
    assert same("d_checkpointed", "checkpointed") == 13


def bitmap(rows):
    """A deletion vector in the log: one container of rows, as roaring bitmaps are stored, in base 85."""
    header = struct.pack("<IQIII", 1681511377, 1, 0, 12346, 1)
    data = header + struct.pack("<HHI", 0, len(rows) - 1, 16) + b"".join(struct.pack("<H", row) for row in rows)
    data += bytes(-len(data) % 4)
    letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    text = ""
    for (number,) in struct.iter_unpack(">I", data):
        digits = [letters[number // 85 ** place % 85] for place in range(5)]
        text += "".join(reversed(digits))
    return text, len(data)


def delete_by_vector(folder, rows):
    """Commits a version in which rows of the only file are deleted, as Spark does."""
    log = sorted((folder / "_delta_log").glob("*.json"))
    actions = [json.loads(line) for commit in log for line in commit.read_text().splitlines()]
    add = [action["add"] for action in actions if "add" in action][-1]
    text, size = bitmap(rows)
    vector = {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": size, "cardinality": len(rows)}
    remove = {"path": add["path"], "dataChange": True, "deletionTimestamp": add["modificationTime"]}
    if "deletionVector" in add:
        remove["deletionVector"] = add["deletionVector"]
    features = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    lines = [{"protocol": features}, {"remove": remove}, {"add": {**add, "deletionVector": vector}}]
    (folder / "_delta_log" / f"{len(log):020}.json").write_text("".join(json.dumps(line) + "\n" for line in lines))


@check
def deleted_rows():
    """rows that a deletion vector deletes, in every way of counting"""
    folder = FOLDER / "vectors"
    write_deltalake(folder, people(0, 1000))
    create("d_vectors", "vectors")
    everything = list(range(1000))
    for deleted in [[0, 1, 2, 500, 999], list(range(0, 1000, 3))]:
        delete_by_vector(folder, deleted)
        left = [row for row in everything if row not in deleted]
        assert query("SELECT count(*), min(id), max(id), sum(id) FROM d_vectors") == [(len(left), left[0], left[-1], sum(left))]
        assert query("SELECT count(*) FROM d_vectors") == [(len(left),)]
        assert query("SELECT min(id), max(id) FROM d_vectors") == [(left[0], left[-1])]
        assert [row[0] for row in query("SELECT id FROM d_vectors ORDER BY id")] == left
        assert len(query("SELECT id FROM d_vectors WHERE id >= 0 LIMIT 400")) == 400
        assert query("SELECT count(*) FROM d_vectors WHERE id = 500") == [(int(500 in left),)]
    delete_by_vector(folder, everything)
    assert query("SELECT count(*) FROM d_vectors") == [(0,)]
    assert query("SELECT * FROM d_vectors") == []


try:
    run()
finally:
    shutil.rmtree(FOLDER)
