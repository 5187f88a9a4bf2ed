from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.py"))
NEEDS = {"network": "altair", "agent": "gymnasium", "learn": "stable_baselines3", "sweep": "distributed", "papers": "trunkline"}


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs_from_its_first_cell_to_its_last(notebook: Path, tmp_path: Path) -> None:
    pytest.importorskip(NEEDS[notebook.stem])
    environment = {**os.environ, "TRUNKLINE_BRIEF": "1", "TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run([sys.executable, notebook], env=environment, capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "# %% [markdown]" in notebook.read_text()


def test_all_of_them_are_there() -> None:
    assert {notebook.stem for notebook in NOTEBOOKS} == set(NEEDS)
