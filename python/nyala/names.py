"""Names of tables and cubes as SQL reads them: lower case, unless they are in double quotes."""

from __future__ import annotations

import re

_PART = r'"(?:[^"]|"")+"|[^\s".]+'
_NAME = re.compile(rf"\s*({_PART})(?:\s*\.\s*({_PART}))?\s*")
DEFAULT_SCHEMA = "public"


def quote_name(*parts: str) -> str:
    """The name in double quotes, for names with capitals, spaces, dots or quotes in them.

    >>> quote_name("Sales 2026")
    '"Sales 2026"'
    >>> quote_name("archive", 'the "old" one')
    '"archive"."the ""old"" one"'
    """
    if not parts or not all(parts):
        raise ValueError("a name has at least one part, and none of them is empty")
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)


def split_name(name: str) -> tuple[str, str]:
    """Schema and name that a name in SQL means.

    >>> split_name("Revenue")
    ('public', 'revenue')
    >>> split_name('archive."Revenue"')
    ('archive', 'Revenue')
    """
    found = _NAME.fullmatch(name)
    if found is None:
        hint = "write `name` or `schema.name`; nyala.quote_name() quotes names with other characters"
        raise ValueError(f"`{name}` is not a name in SQL: {hint}")
    first, second = found.groups()
    return (DEFAULT_SCHEMA, _meant(first)) if second is None else (_meant(first), _meant(second))


def _meant(part: str) -> str:
    return part[1:-1].replace('""', '"') if part.startswith('"') else part.lower()
