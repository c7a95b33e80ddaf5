"""Writes the texts of the 99 TPC-DS queries as a JSON object by number, from DuckDB's extension.

    pip install duckdb==1.4.4 duckdb-ext-tpcds==1.4.4.20260205
    texts.py FILE
"""

import json
import pathlib
import sys

import duckdb

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "tests" / "compat"))
from tpc_tables import extension  # noqa: E402

connection = duckdb.connect()
extension(connection, "tpcds")
found = connection.execute("SELECT query_nr, query FROM tpcds_queries() ORDER BY 1").fetchall()
texts = {str(number): text.strip().rstrip("; \n") for number, text in found}
pathlib.Path(sys.argv[1]).write_text(json.dumps(texts, indent=1))
