"""What the Python compatibility tests share: one line for each check, and where the server is."""

import os
import sys
import traceback

HOST = os.environ.get("PGHOST", "127.0.0.1")
PORT = int(os.environ.get("PGPORT", "5433"))
USER = os.environ.get("PGUSER", "compat")
DATABASE = os.environ.get("PGDATABASE", "nyala")

_checks = []


def check(function):
    """Registers a check; its docstring is what the line says."""
    _checks.append(function)
    return function


def run():
    """Runs all checks in order and exits with 1 if any failed."""
    failed = 0
    for function in _checks:
        name = (function.__doc__ or function.__name__).strip().splitlines()[0]
        try:
            function()
        except Exception:
            failed += 1
            print(f"FAIL  {name}")
            traceback.print_exc(file=sys.stdout)
        else:
            print(f"ok    {name}")
        sys.stdout.flush()
    print(f"{len(_checks) - failed} of {len(_checks)} checks passed")
    sys.exit(1 if failed else 0)
