"""Values of Python as JSON for the server, and values of its JSON as Python has them."""

from __future__ import annotations

import json
import math
import numbers
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

from .errors import Error

# What the server reads as a number without loss.
_SMALLEST, _LARGEST = -(2**63), 2**64 - 1

_Convert = Callable[[Any], Any]


def parameter(value: object, place: str) -> object:
    """A value that JSON carries to the server, which casts it to the type that the statement needs."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return value if _SMALLEST <= value <= _LARGEST else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else _float_text(value)
    if isinstance(value, (Decimal, UUID)):
        return str(value)
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return "\\x" + bytes(value).hex()
    number = _number_of_numpy(value)
    if number is not None:
        return parameter(number, place)
    raise TypeError(
        f"{place} is of type {type(value).__name__}, which no parameter can be: send text, and cast it in SQL"
    )


def _number_of_numpy(value: object) -> int | float | None:
    """The value of a number of numpy, as cells of frames are; none for other values. Fractions are left out, because a float would round them."""
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real) and not isinstance(value, numbers.Rational):
        return float(value)
    if type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_"):
        return bool(value)
    return None


def parameters(values: Sequence[object]) -> list[object]:
    """The values of `$1`, `$2`, …"""
    return [parameter(value, f"parameter ${number}") for number, value in enumerate(values, 1)]


def row_text(row: Mapping[str, object]) -> str:
    """A row as a line of NDJSON."""
    cells = {name: _cell(value) for name, value in row.items()}
    return json.dumps(cells, default=_cell, allow_nan=False, separators=(",", ":"))


def _cell(value: object) -> object:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).hex()
    if isinstance(value, UUID):
        # A load reads a UUID as bytes, and takes the form with dashes for no value.
        return value.hex
    if isinstance(value, (list, tuple, dict)):
        return value
    return parameter(value, "a value")


def _float_text(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def rows(types: Iterable[str], rows: Iterable[Sequence[object]]) -> list[tuple[object, ...]]:
    """The rows of a JSON answer with the values that Python has for columns of these types."""
    converters = [_converter(name) for name in types]
    try:
        return [tuple(_each(converters, row)) for row in rows]
    except (ValueError, OverflowError) as error:
        hint = "cast it to text in SQL, or take .arrow()"
        raise Error("out_of_range", f"a value of the result does not fit into Python's type: {error}", hint) from error


def _each(converters: Sequence[_Convert], row: Sequence[object]) -> Iterable[object]:
    return (None if value is None else convert(value) for convert, value in zip(converters, row))


def _converter(type_name: str) -> _Convert:
    if type_name.endswith("[]"):
        item = _converter(type_name[:-2])
        return lambda values: [None if value is None else item(value) for value in values]
    return _CONVERTERS.get(type_name.partition("(")[0], _unchanged)


def _unchanged(value: object) -> object:
    return value


def _timestamp(text: str) -> datetime:
    found = _TIMESTAMP.fullmatch(text)
    if found is None:
        raise ValueError(f"`{text}` is not a time that Python can hold")
    day, clock, fraction, zone = found.groups()
    moment = datetime.fromisoformat(f"{day}T{clock}")
    return moment.replace(microsecond=_microseconds(fraction), tzinfo=_zone(zone))


def _time(text: str) -> time:
    clock, _, fraction = text.partition(".")
    return time.fromisoformat(clock).replace(microsecond=_microseconds(fraction))


def _microseconds(fraction: str | None) -> int:
    """Python has no nanoseconds: they are cut off."""
    return int((fraction or "0")[:6].ljust(6, "0"))


def _zone(text: str | None) -> timezone | None:
    if not text:
        return None
    if text in ("Z", "z"):
        return timezone.utc
    hours, minutes = int(text[1:3]), int(text[-2:])
    offset = timedelta(hours=hours, minutes=minutes)
    return timezone(-offset if text[0] == "-" else offset)


_TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.(\d+))?(Z|[+-]\d\d:?\d\d)?")

_CONVERTERS: dict[str, _Convert] = {
    "bytea": bytes.fromhex,
    "date": date.fromisoformat,
    "double precision": float,
    "numeric": Decimal,
    "real": float,
    "time": _time,
    "timestamp": _timestamp,
    "timestamp with time zone": _timestamp,
    "uuid": UUID,
}
