"""Small tables of random rows, the same in PostgreSQL, in live tables and in Parquet files.

Columns of several tables have the same names, and then the same type. Some tables are empty, some have equal rows and no key, and some
columns have one value only: what optimizers conclude from such things is what is tested.
"""

import datetime
import random
import shutil
from decimal import Decimal

import pyarrow
import pyarrow.parquet

NAMES = {"int": ["k", "v", "g"], "big": ["b", "w"], "num": ["n", "p"], "dbl": ["f", "h"], "text": ["s", "t"], "date": ["d", "e"]}
NAMES |= {"ts": ["m", "o"], "bool": ["y", "z"]}
POSTGRES = {"int": "INT", "big": "BIGINT", "num": "NUMERIC(10,2)", "dbl": "DOUBLE PRECISION", "text": "TEXT", "date": "DATE"}
POSTGRES |= {"ts": "TIMESTAMP", "bool": "BOOLEAN"}
ARROW = {"int": pyarrow.int32(), "big": pyarrow.int64(), "num": pyarrow.decimal128(10, 2), "dbl": pyarrow.float64()}
ARROW |= {"text": pyarrow.string(), "date": pyarrow.date32(), "ts": pyarrow.timestamp("us"), "bool": pyarrow.bool_()}
TEXTS = ["a", "b", "ab", "abc", "B", "", "a%b", "x_y", "zz", "Abc", "ba", "é", " a "]


class Column:
    def __init__(self, name, type, nullable):
        self.name, self.type, self.nullable = name, type, nullable


class Table:
    def __init__(self, name, columns, rows, key):
        self.name, self.columns, self.rows, self.key = name, columns, rows, key
        # Which rows come when cubes over it have been built.
        self.later = "nothing"

    def create(self):
        columns = [f"{column.name} {POSTGRES[column.type]}{'' if column.nullable else ' NOT NULL'}" for column in self.columns]
        return f"CREATE TABLE {self.name} ({', '.join(columns + (['PRIMARY KEY (id)'] if self.key else []))})"

    def insert(self):
        rows = ", ".join("(" + ", ".join(literal(value) for value in row) + ")" for row in self.rows)
        return f"INSERT INTO {self.name} VALUES {rows}" if rows else None


def value(rng, type):
    if type in ("int", "big"):
        return rng.choice([rng.randint(-3, 6), rng.randint(-3, 6), rng.randint(-50, 50)])
    if type == "num":
        return Decimal(rng.randint(-400, 1000)).scaleb(-2) if rng.random() < 0.3 else Decimal(rng.randint(-8, 16)) / 4
    if type == "dbl":
        return rng.randint(-12, 24) / 4 + 0.0
    if type == "text":
        return rng.choice(TEXTS)
    if type == "date":
        return datetime.date(2024, 1, 1) + datetime.timedelta(days=rng.choice([rng.randint(0, 6), rng.randint(-400, 400)]))
    if type == "ts":
        seconds = rng.choice([rng.randint(0, 6) * 86400, rng.randint(-30_000_000, 30_000_000)])
        return datetime.datetime(2024, 1, 1) + datetime.timedelta(seconds=seconds)
    return rng.random() < 0.5


def literal(value):
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, datetime.date)):
        return "'" + str(value).replace("'", "''") + "'"
    return str(value)


def tables(rng, same_names=True):
    """Six tables; of columns with other names in each there are twelve, since then no table is in a query twice."""
    drawn = [table(rng, f"t{number}") for number in range(1, 7 if same_names else 13)]
    for one in drawn if not same_names else []:
        for column in one.columns:
            column.name += "" if column.name == "id" and one.key else f"_{one.name}"
    return drawn


def table(rng, name):
    key = rng.random() < 0.7
    columns = [Column("id", "int", False)] if key or rng.random() < 0.5 else []
    for type, names in NAMES.items():
        for column in rng.sample(names, rng.choice([0, 1, 1, 2]) if type != "int" else rng.choice([1, 2, 3])):
            columns.append(Column(column, type, rng.random() < 0.7))
    number = rng.choice([0, 1, 2, 5, 9, 9, 14, 14, 20])
    drawn = [some_values(rng, column, number, key) for column in columns]
    rows = [list(row) for row in zip(*drawn)]
    if not key and rows and rng.random() < 0.6:
        rows += [list(rng.choice(rows)) for _ in range(len(rows) // 2)]
    made = Table(name, columns, rows, key)
    made.later = random.Random(f"{name} {rows}").choice(["nothing", "nothing", "half", "half", "all"])
    return made


def some_values(rng, column, number, key):
    if column.name == "id":
        return rng.sample(range(1, number + 5), number) if key else [rng.randint(1, 6) for _ in range(number)]
    if rng.random() < 0.12:
        one = None if column.nullable and rng.random() < 0.4 else value(rng, column.type)
        return [one] * number
    nulls = rng.choice([0.1, 0.3, 0.6]) if column.nullable else 0
    few = [value(rng, column.type) for _ in range(rng.choice([2, 4, 50]))]
    values = [None if rng.random() < nulls else rng.choice(few) for _ in range(number)]
    if rng.random() < 0.2:
        values.sort(key=lambda one: (one is None, one if one is not None else 0))
    return values


def load(tables, postgres, live, files, folder):
    """Makes the tables anew in all three places; `live` and `files` are connections whose search_path is the schema."""
    for table in tables:
        for connection in (postgres, live):
            connection.do(f"DROP TABLE IF EXISTS {table.name}")
            connection.do(table.create())
            if table.rows:
                connection.do(table.insert())
        files.do(f"DROP TABLE IF EXISTS {table.name}")
        place = folder / table.name
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        write_parquet(table, place)
        files.do(f"CREATE EXTERNAL TABLE {table.name} STORED AS PARQUET LOCATION '{place}/'")


def load_with_cubes(tables, postgres, live, files, folder, build):
    """Makes the tables anew with cubes over them; `build` makes and builds those of a connection, when some of the rows are there already."""
    for table in tables:
        postgres.do(f"DROP TABLE IF EXISTS {table.name}")
        postgres.do(table.create())
        if table.rows:
            postgres.do(table.insert())
        live.do(f"DROP TABLE IF EXISTS {table.name}")
        live.do(table.create())
        files.do(f"DROP TABLE IF EXISTS {table.name}")
        place = folder / "cubed" / table.name
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        old, _ = parts(table)
        if old.rows:
            live.do(old.insert())
        write_parquet(old, place)
        files.do(f"CREATE EXTERNAL TABLE {table.name} STORED AS PARQUET LOCATION '{place}/'")
    for connection in (live, files):
        build(connection)
    for table in tables:
        old, new = parts(table)
        if new.rows:
            live.do(new.insert())
            write_parquet(new, folder / "cubed" / table.name, "new")
        others = [column.name for column in table.columns if column.name != "id"]
        if table.key and old.rows and table.later != "nothing" and others:
            # The row is the same, but of a later version than the cubes.
            live.do(f"UPDATE {table.name} SET {others[0]} = {others[0]} WHERE id = {old.rows[0][0]}")


def parts(table):
    """A table with the rows that are there when cubes are built, and one with those that come later."""
    size = {"nothing": len(table.rows), "half": (len(table.rows) + 1) // 2, "all": 0}[table.later]
    rows = [table.rows[:size], table.rows[size:]]
    return [Table(table.name, table.columns, some, table.key) for some in rows]


def write_parquet(table, place, name=""):
    """Two files of small row groups, so that there are several parts to read and to leave out."""
    fields = [pyarrow.field(column.name, ARROW[column.type], nullable=column.nullable) for column in table.columns]
    half = (len(table.rows) + 1) // 2
    for number, rows in enumerate([table.rows[:half], table.rows[half:]] if table.rows else [[]]):
        values = list(zip(*rows)) if rows else [[] for _ in fields]
        arrays = [pyarrow.array(list(column), type=field.type) for column, field in zip(values, fields)]
        written = pyarrow.Table.from_arrays(arrays, schema=pyarrow.schema(fields))
        pyarrow.parquet.write_table(written, place / f"{name}{number}.parquet", row_group_size=4)
