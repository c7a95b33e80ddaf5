"""The tables of TPC-H and TPC-DS in a server: over Parquet files, and as live tables; and DuckDB's extensions for both."""

import re
from pathlib import Path

import duckdb

# Tables whose key is not their first column alone.
KEYS = {
    "partsupp": "ps_partkey, ps_suppkey",
    "lineitem": "l_orderkey, l_linenumber",
    "store_sales": "ss_item_sk, ss_ticket_number",
    "store_returns": "sr_item_sk, sr_ticket_number",
    "catalog_sales": "cs_item_sk, cs_order_number",
    "catalog_returns": "cr_item_sk, cr_order_number",
    "web_sales": "ws_item_sk, ws_order_number",
    "web_returns": "wr_item_sk, wr_order_number",
    "inventory": "inv_date_sk, inv_item_sk, inv_warehouse_sk",
}


def extension(connection, name):
    """Loads an extension from the package `duckdb-ext-…`, or one that was installed before."""
    folder = Path(duckdb.__file__).parent.parent / "duckdb_ext" / "extensions" / f"v{duckdb.__version__}"
    files = list(folder.glob(f"*/{name}.duckdb_extension"))
    connection.execute(f"LOAD '{files[0]}'" if files else f"LOAD {name}")


def table_names(files):
    return sorted(path.name for path in Path(files).iterdir() if path.is_dir())


def external_tables(connection, files):
    """Tables over the files, in a schema of the folder's name, so that two scales do not meet."""
    schema = re.sub(r"\W", "_", files.name.lower())
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    for name in table_names(files):
        connection.execute(
            f"CREATE EXTERNAL TABLE IF NOT EXISTS {schema}.{name} STORED AS PARQUET LOCATION '{files}/{name}/'"
        )
    return schema


def live_tables(connection, files, source):
    """Copies the tables of the schema `source`. A table with rows is left as it is."""
    schema = f"{source}_live"
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    for name in table_names(files):
        columns = definitions(connection, source, name)
        key = KEYS.get(name, columns[0][0])
        listed = ", ".join(f"{column} {kind}" for column, kind in columns)
        connection.execute(f"CREATE TABLE IF NOT EXISTS {schema}.{name} ({listed}, PRIMARY KEY ({key}))")
        if connection.execute(f"SELECT count(*) FROM {schema}.{name}").fetchone() == (0,):
            connection.execute(f"INSERT INTO {schema}.{name} SELECT * FROM {source}.{name}")
    return schema


def definitions(connection, schema, name):
    """Names and types of the columns, as the server tells them."""
    return connection.execute(
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
        f" WHERE attrelid = '{schema}.{name}'::regclass AND attnum > 0 ORDER BY attnum"
    ).fetchall()
