"""Comparisons of rows of two engines: without their order, numbers to six digits, and by the values of ORDER BY."""

import re
from decimal import Decimal

import duckdb

DIGITS = 1e-6


def plain(value):
    """Texts without the blanks that fill CHAR, and other values that drivers give as objects, as texts."""
    if value is None or isinstance(value, (Decimal, float, int)):
        return value
    return str(value).rstrip()


def number(value):
    return isinstance(value, (Decimal, float, int)) and not isinstance(value, bool)


def same(left, right):
    """Whole numbers are exact, others have six digits."""
    if isinstance(left, int) and isinstance(right, int) or not (number(left) and number(right)):
        return left == right
    left, right = float(left), float(right)
    if left != left or right != right:
        return left != left and right != right
    return left == right or abs(left - right) <= DIGITS * max(1e-6, abs(left), abs(right))


def alike(left, right):
    return len(left) == len(right) and all(same(a, b) for a, b in zip(left, right))


def exact_part(row):
    """What must be equal to the letter. A whole number counts as inexact: the other engine may give it as a fraction."""
    return tuple("" if number(value) else repr(value) for value in row)


def inexact_part(row):
    return tuple(float(value) for value in row if number(value))


def grouped(rows):
    groups = {}
    for row in rows:
        row = tuple(plain(value) for value in row)
        groups.setdefault(exact_part(row), []).append(row)
    return {key: sorted(group, key=inexact_part) for key, group in groups.items()}


def without(found, others):
    """The first row of `found` that has no partner among `others`, which loses those that have. Both are sorted, so partners
    are near each other: where nearly equal numbers come before others in the sort, a few rows apart."""
    for row in found:
        at = next((at for at, other in enumerate(others) if alike(row, other)), None)
        if at is None:
            return row
        others.pop(at)
    return None


def left_over(found, every):
    """The first row of `found` that is not in `every`; none if all are."""
    groups = grouped(every)
    for key, rows in grouped(found).items():
        row = without(rows, groups.get(key, []))
        if row is not None:
            return f"{row} is one too many"
    return None


def difference(found, wanted):
    """The first difference; none if the rows are the same."""
    if len(found) != len(wanted):
        return f"{len(found)} rows, DuckDB has {len(wanted)}"
    groups = grouped(wanted)
    for key, rows in grouped(found).items():
        others = groups.get(key, [])
        row = without(rows, others)
        if row is not None:
            near = others[0] if others else next(iter(groups.values()))[0]
            return f"{row} is not among DuckDB's rows, of which one is {near}"
    return None


def sort_keys(duck, found, text):
    """The first row whose values of ORDER BY are not those of DuckDB's row at this place, in its table `theirs`. What is no
    value of the answer, such as a column that is not selected, ends the keys that are compared."""
    duck.execute("CREATE OR REPLACE TEMP TABLE ours AS FROM theirs LIMIT 0")
    if found:
        columns = [[None if value is None else str(value) for value in column] for column in zip(*found)]
        duck.execute(f"INSERT INTO ours SELECT {', '.join(['unnest(?::VARCHAR[])'] * len(columns))}", columns)
    keys = [column(duck, key) for key in order_by(text)]
    for end in range(len(keys), 0, -1):
        listed = ", ".join(keys[:end])
        try:
            ours, theirs = (duck.execute(f"SELECT {listed} FROM {name} ORDER BY rowid").fetchall() for name in ("ours", "theirs"))
        except duckdb.BinderException:
            continue
        pairs = enumerate(zip(ours, theirs), 1)
        return next((f"row {at} has {ours}, DuckDB {theirs}" for at, (ours, theirs) in pairs if not alike(ours, theirs)), None)
    return None


def column(duck, key):
    """A key of ORDER BY as an expression over the answer: a number is a column, and a table's name is gone."""
    if key.isdigit():
        return f'"{duck.table("theirs").columns[int(key) - 1]}"'
    return re.sub(r"\b\w+\.(\w+)", r"\1", key)


def order_by(text):
    """The keys of the last ORDER BY outside parentheses, without their directions."""
    outside, depth = [], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        outside.append(character if depth == 0 else character.lower())
    at = "".join(outside).rfind("ORDER BY")
    if at < 0:
        return []
    listed = re.sub(r"\s+LIMIT\s+\d+\s*$", "", text[at + len("ORDER BY") :])
    parts, depth, part = [], 0, ""
    for character in listed + ",":
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append(re.sub(r"\s+(ASC|DESC|NULLS\s+(FIRST|LAST))\b", "", part.strip(), flags=re.IGNORECASE).strip())
            part = ""
        else:
            part += character
    return parts


def rounded_exactly(text):
    """DuckDB's quotients are doubles, of which 0.575 is a little less and rounded to 0.57: they become decimals before."""
    for call in reversed(list(re.finditer(r"\bround\(", text, flags=re.IGNORECASE))):
        depth, end = 0, call.end()
        while depth or text[end] not in ",)":
            depth += (text[end] == "(") - (text[end] == ")")
            end += 1
        text = f"{text[: call.end()]}CAST({text[call.end() : end]} AS DECIMAL(38, 12)){text[end:]}"
    return text
