from __future__ import annotations

import os
from pathlib import Path

import pytest

import trunkline as tl

HERE = Path(__file__).parent


@pytest.fixture
def file() -> Path:
    return HERE / "dumbbell.toml"


@pytest.fixture
def dumbbell(file: Path) -> tl.Experiment:
    return tl.Experiment.load(file)


@pytest.fixture
def office() -> tl.Experiment:
    """Two classes on one lane of a trunk, each with a flow that sends what it can."""
    return tl.Experiment.load(HERE / "office.toml")


@pytest.fixture
def program() -> str:
    """The program of the same version, to compare with."""
    program = os.environ.get("TRUNKLINE")
    if program is None:
        pytest.skip("lacks the program trunkline: TRUNKLINE says where it is")
    return program
