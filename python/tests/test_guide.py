"""The examples of the guide and of docstrings do what they say."""

from __future__ import annotations

import doctest
import importlib
import io
import re
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from nyala import arrow

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "python.md"
EXAMPLE = re.compile(r"^```python\n(.*?)^```\n(?:\n^```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)


@pytest.mark.skipif(not arrow.is_installed(), reason="pyarrow is not installed")
def test_the_guide(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sqlalchemy")
    from sqlalchemy.dialects import registry

    registry.register("nyala", "nyala.sqlalchemy", "NyalaDialect")
    names: dict[str, Any] = {}
    examples = EXAMPLE.findall(GUIDE.read_text())
    assert len(examples) > 8
    for code, expected in examples:
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(compile(code, str(GUIDE), "exec"), names)  # noqa: S102 (the code is that of our own guide)
        assert printed.getvalue() == expected, code


@pytest.mark.parametrize("module", ["names", "server", "toml"])
def test_docstrings(module: str) -> None:
    found = doctest.testmod(importlib.import_module(f"nyala.{module}"))
    assert found.attempted > 0
    assert found.failed == 0
