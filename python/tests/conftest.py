"""One server for all tests that do not need their own, and a table for each test that asks for one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

import nyala

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def server() -> Iterator[nyala.Server]:
    """A server in which everybody may do everything."""
    with nyala.Server(query={"threads": 2}, cubes={"check_files_ms": 100}) as server:
        yield server


@pytest.fixture
def connection(server: nyala.Server) -> Iterator[nyala.Connection]:
    """A connection to it."""
    with nyala.connect(server) as connection:
        yield connection


@pytest.fixture
def name() -> str:
    """A name that no other test uses."""
    return f"t{next(_NUMBERS)}"


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """The files of a certificate for 127.0.0.1 and of its key."""
    from certificates import write_certificate

    return write_certificate(tmp_path)
