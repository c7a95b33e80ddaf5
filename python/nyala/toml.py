"""Writes TOML: Python reads it (from 3.11 on) and does not write it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any


def to_toml(document: Mapping[str, Any]) -> str:
    """The document as text.

    >>> print(to_toml({"data_dir": "d", "server": {"max_connections": 7}, "admission": {"groups": {"a b": {"users": ["x"]}}}}))
    data_dir = "d"
    <BLANKLINE>
    [server]
    max_connections = 7
    <BLANKLINE>
    [admission.groups."a b"]
    users = ["x"]
    """
    return "\n".join(_table((), document)).strip()


def _table(path: tuple[str, ...], table: Mapping[str, Any]) -> Iterator[str]:
    values = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
    if path and values:
        yield f"\n[{'.'.join(map(_key, path))}]"
    for key, value in values.items():
        yield f"{_key(key)} = {_value('.'.join((*path, key)), value)}"
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _table((*path, key), value)


def _key(key: str) -> str:
    return key if key.isascii() and key.replace("_", "").replace("-", "").isalnum() else _text(key)


def _value(path: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (str, os.PathLike)):
        return _text(os.fspath(value))
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_value(path, item) for item in value)}]"
    raise TypeError(
        f"the configuration key `{path}` is a {type(value).__name__}: give text, a number, a boolean, a list or a dictionary"
    )


def _text(text: str) -> str:
    # A string of JSON is one of TOML, but for a character that JSON leaves as it is.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")
