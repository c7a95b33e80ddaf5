"""Rows of `SHOW` statements as objects, by the names of columns."""

from __future__ import annotations

from dataclasses import fields
from typing import TypeVar

from .result import Result

T = TypeVar("T")


def records(result: Result, kind: type[T]) -> list[T]:
    """An object of a data class for each row. Columns that the class does not have are those of a newer server."""
    names = [column.name for column in result.columns]
    wanted = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    return [kind(**{name: value for name, value in zip(names, row) if name in wanted}) for row in result]
