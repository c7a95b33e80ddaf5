#!/usr/bin/env python3
"""Runs Apache Superset over PostgreSQL and over Nyala, through its own REST API in this process, and compares what the charts would be given.

    python superset postgresql://user@host:port/database postgresql://nyala@host:port/nyala [part of a check's name ...]

Wants a Python with apache-superset 6.1 (../README.md). Prints each difference with the SQL that was sent, and the number of equal answers.
The folder SUPERSET_HOME (by default in the temporary folder) keeps Superset's own database: making it takes some minutes, once.
"""

import json
import os
import re
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))  # for comparison.py; at the end, since this folder has the name of a package

from checks import checks
from comparison import difference, set_up
from fixtures import SETUP
from server import Server, start

sys.path.remove(str(Path(__file__).resolve().parent))  # the names of these files are for nothing that Superset imports


def bare(answer):
    """An answer without what is only shown, and without the address of the server."""
    kept = {key: value for key, value in answer.items() if not key.startswith("~")} if isinstance(answer, dict) else answer
    return plain(kept)


def plain(value):
    text = json.dumps(value, sort_keys=True, default=str, ensure_ascii=False)
    return re.sub(r":\d+/nyala\b", ":PORT/nyala", text)


def ask(servers, wanted):
    """The answers of both servers by name of check. Superset has one dataset of a name, so one server is asked after the other."""
    from superset.extensions import db

    call, answers = start(), {}
    for name, url in servers:
        for check, run in checks(Server(call, name, url)):
            if wanted and not any(part in check for part in wanted):
                continue
            try:
                found = run()
            except Exception as error:  # an error is an answer too
                db.session.rollback()
                found = {"error": type(error).__name__, "~words": str(error)[:500]}
            answers.setdefault(check, []).append(found)
    return answers


def main(right_url, url, wanted):
    set_up((right_url, url), SETUP)
    equal, failed = 0, []
    answers = ask((("right", right_url), ("own", url)), wanted)
    for name, (right, own) in answers.items():
        expected, got = bare(right), bare(own)
        equal += expected == got
        if expected == got and '"error": [' in expected:
            failed.append(name)
        if expected != got:
            print(f"DIFFERS {name}\n{difference(expected, got, width=300)}", flush=True)
            for key in ("~words", "~sql"):
                if isinstance(own, dict) and own.get(key):
                    print(f"  {key[1:]} {plain(own[key])[:2500]}", flush=True)
    print(f"superset: {equal} of {len(answers)}, {len(failed)} of them errors of both: {', '.join(failed)}")
    return equal == len(answers)


if __name__ == "__main__":
    done = main(sys.argv[1], sys.argv[2], sys.argv[3:])
    sys.stdout.flush()
    os._exit(0 if done else 1)
