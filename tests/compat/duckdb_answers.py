#!/usr/bin/env python3
"""Answers queries with DuckDB, as another engine's word on the same Parquet files.

    duckdb_answers.py FILES QUERIES

FILES has one folder of Parquet files for each table, QUERIES one statement in each `.sql` file. Prints a
JSON object: for each query, by the file's name without its end, the rows as texts; NULL is "NULL".
"""

import json
import sys
from pathlib import Path

import duckdb


def quoted(text, quote):
    return quote + str(text).replace(quote, quote * 2) + quote


def connect(files):
    """A database with a view for each table."""
    connection = duckdb.connect()
    for folder in sorted(path for path in Path(files).iterdir() if path.is_dir()):
        pattern = quoted(folder / "*.parquet", "'")
        connection.execute(f"CREATE VIEW {quoted(folder.name, chr(34))} AS SELECT * FROM read_parquet({pattern})")
    return connection


def text(value):
    if value is None:
        return "NULL"
    return str(value).lower() if isinstance(value, bool) else str(value)


def main(files, queries):
    connection = connect(files)
    answers = {}
    for file in sorted(Path(queries).glob("*.sql")):
        rows = connection.execute(file.read_text()).fetchall()
        answers[file.stem] = [[text(value) for value in row] for row in rows]
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2])
