"""The comparison that `compare.py`, `frames` and `superset` share: each check is asked of PostgreSQL and of Nyala, and gives an answer or an error.

A tool is a name with the module it wants, and functions that make its checks: `make(module, url)` gives a dictionary of names and functions.
"""

import difflib
import importlib


class Error(tuple):
    """An error is equal to another of the same class and SQLSTATE. Its words are each server's own, and are only shown."""

    def __new__(cls, error):
        sources = (error, getattr(error, "orig", None), error.__cause__)
        codes = [getattr(source, name, None) for source in sources for name in ("sqlstate", "pgcode")]
        made = super().__new__(cls, ("error", type(error).__name__, next((code for code in codes if code), "")))
        made.words = str(error).replace("\n", " ")
        return made

    def __str__(self):
        return " ".join(part for part in (*self[1:], self.words) if part)


class Answer(tuple):
    """What a check returned, as text."""

    def __new__(cls, found):
        return super().__new__(cls, ("ok", found if isinstance(found, str) else repr(found)))

    def __str__(self):
        return self[1]


def answer(check):
    try:
        return Answer(check())
    except Exception as error:  # an error is an answer too
        return Error(error)


def missing():
    raise LookupError("no answer")


def difference(expected, got, width=1000):
    """Lines that differ, or, of two long lines, the parts from shortly before the first difference."""
    if "\n" in expected:
        lines = difflib.unified_diff(expected.split("\n"), got.split("\n"), lineterm="", n=1)
        return "\n".join(f"  {line}" for line in list(lines)[2:])
    at = next((i for i, (a, b) in enumerate(zip(expected, got)) if a != b), min(len(expected), len(got)))
    begin = max(0, at - 120)
    return "\n".join(f"  {name} {'…' * (begin > 0)}{text[begin : begin + width]}" for name, text in (("expected", expected), ("got     ", got)))


def set_up(urls, statements):
    """Runs the statements on each server, each in a transaction of its own."""
    try:
        connect = importlib.import_module("psycopg").connect
    except ImportError:
        connect = importlib.import_module("psycopg2").connect
    for url in urls:
        connection = connect(url)
        connection.autocommit = True
        for sql in statements:
            connection.cursor().execute(sql)
        connection.close()


def compare(tools, right_url, url, wanted=()):
    """Prints each difference, and for each tool the number of equal answers; returns these numbers by tool."""
    equal_answers = {}
    for tool, (module, *makers) in tools.items():
        if wanted and tool not in wanted:
            continue
        try:
            loaded = importlib.import_module(module) if module else None
            right, own = ({name: check for make in makers for name, check in make(loaded, target).items()} for target in (right_url, url))
        except ImportError:
            print(f"{tool}: not installed, left out")
            continue
        equal = 0
        for name in right | own:
            expected, got = answer(right.get(name, missing)), answer(own.get(name, missing))
            equal += expected == got
            if expected != got:
                print(f"DIFFERS {tool} {name}\n{difference(str(expected), str(got))}", flush=True)
        equal_answers[tool] = equal
        print(f"{tool}: {equal} of {len(right | own)}", flush=True)
    return equal_answers
