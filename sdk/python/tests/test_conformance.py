"""Every scenario of sdk/conformance. `CONFORMANCE` may name another folder of scenarios."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from scenario import play

SCENARIOS = Path(os.environ.get("CONFORMANCE") or Path(__file__).parents[2] / "conformance" / "scenarios")


@pytest.mark.parametrize("path", sorted(SCENARIOS.glob("*.ndjson")), ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    play(path)
