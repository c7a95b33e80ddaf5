#!/usr/bin/env python3
"""What notebooks do: pandas, polars, ADBC, connectorx, ibis, SQLAlchemy with Alembic, psycopg and pgcli, each beside PostgreSQL as in compare.py.

python frames postgresql://user@host:port/database postgresql://nyala@host:port/nyala [tool ...]
"""

import importlib
import sys
import warnings
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))  # for comparison.py; at the end, since folders there have names of packages

from comparison import compare, set_up
from fixtures import SETUP

# The package that each tool wants, and the files here that have its checks.
TOOLS = {
    "pandas": ("pandas", "pandas_checks"),
    "polars": ("polars", "polars_checks", "polars_types"),
    "connectorx": ("connectorx", "connectorx_checks"),
    "adbc": ("adbc_driver_postgresql.dbapi", "adbc_checks", "adbc_types", "adbc_ingestion"),
    "ibis": ("ibis", "ibis_queries", "ibis_tables"),
    "sqlalchemy": ("sqlalchemy", "sqlalchemy_orm", "sqlalchemy_catalog", "alembic_checks"),
    "psycopg": ("psycopg", "psycopg_session", "psycopg_copy", "psycopg_values"),
    "pgcli": ("pgcli", "pgcli_checks"),
}


def main(right_url, url, wanted):
    warnings.simplefilter("ignore")
    set_up((right_url, url), SETUP)
    tools = {tool: (package, *(importlib.import_module(file).checks for file in files)) for tool, (package, *files) in TOOLS.items()}
    equal = compare(tools, right_url, url, wanted)
    return all(equal.values())


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1], sys.argv[2], sys.argv[3:]) else 1)
