from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

ROOT = Path(os.environ.get("TRUNKLINE_ROOT", Path(__file__).parents[2]))
PAGE = ROOT / "docs" / "python.md"


def test_the_page_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("polars", "gymnasium"):
        pytest.importorskip(module)
    if not PAGE.exists():
        pytest.skip("lacks the repository around the package: TRUNKLINE_ROOT says where it is")
    monkeypatch.chdir(ROOT)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) >= 4
    # As a reader types them, one after the other. What needs a scheduler is in test_cluster.py.
    names: dict[str, object] = {}
    for block in blocks:
        if "distributed" not in block:
            exec(compile(block, str(PAGE), "exec"), names)
    assert names["goodput"] and names["seen"] is not None
