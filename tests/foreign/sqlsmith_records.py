#!/usr/bin/env python3
"""Makes records of random queries: sqlsmith writes them for PostgreSQL's tables, the runner asks both servers.

    sqlsmith_records.py COUNT SEED FOLDER 'host=… port=… user=… dbname=…'

The tables `smith_*` are made in PostgreSQL for sqlsmith to see, and made anew by the records.
"""

import re
import subprocess
import sys
from pathlib import Path

TABLES = [
    "CREATE TABLE smith_orders (id INT, customer INT, amount NUMERIC(10,2), ratio FLOAT8, note TEXT, placed TIMESTAMP, day DATE, ok BOOLEAN)",
    "INSERT INTO smith_orders SELECT i, i % 7, i * 1.25, i / 3.0, 'n' || (i % 5), TIMESTAMP '2024-01-01' + i * INTERVAL '1 hour', "
    "DATE '2024-01-01' + i, i % 2 = 0 FROM generate_series(1, 40) AS s(i)",
    "INSERT INTO smith_orders VALUES (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
    "CREATE TABLE smith_customers (id BIGINT, name VARCHAR(20), city TEXT, since TIMESTAMPTZ)",
    "INSERT INTO smith_customers SELECT i, 'c' || i, CASE WHEN i % 3 = 0 THEN NULL ELSE 'x' END, TIMESTAMPTZ '2020-01-01 00:00:00+00' FROM generate_series(0, 8) AS s(i)",
]
PER_FILE = 500
# Functions with effects, of the moment, of PostgreSQL's server, and samples of tables.
UNFIT = re.compile(
    r"(?i)pg_|lo_|_wal|set_config|txid|nextval|setval|query_to|table_to|cursor_to|schema_to|database_to|random|clock|now\(|version|inet_|"
    r"current_|gen_|tablesample|for (update|share|no key|key)|insert into|update |delete from|timeofday|_timestamp\(\)|binary_upgrade|dblink"
)


def main():
    count, seed, folder, address = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), sys.argv[4]
    folder.mkdir(parents=True, exist_ok=True)
    drop = ["DROP TABLE IF EXISTS smith_orders, smith_customers"]
    for sql in drop + TABLES:
        subprocess.run(["psql", "-qX", "-d", address, "-v", "ON_ERROR_STOP=1", "-c", sql], check=True)
    smith = ["sqlsmith", f"--target={address}", "--dry-run", f"--max-queries={count}", f"--seed={seed}", "--exclude-catalog"]
    text = subprocess.run(smith, capture_output=True, text=True, check=True).stdout
    queries = [" ".join(query.split()) for query in re.split(r";\s*\n", text)]
    # Only what reads and what has one answer; schemas differ by file.
    queries = [query.replace("public.", "").replace("pg_catalog.", "") for query in queries]
    queries = [query for query in queries if re.match(r"(?i)(select|with)\b", query) and not UNFIT.search(query)]
    for old in folder.glob("*.slt"):
        old.unlink()
    for number in range(0, len(queries), PER_FILE):
        records = [f"statement ok\n{sql}\n" for sql in TABLES] + [f"query T nosort\n{sql}\n----\n" for sql in queries[number : number + PER_FILE]]
        (folder / f"smith_{number:06}.slt").write_text("\n".join(records))
    print(len(queries), "queries of", count, "only read")


main()
