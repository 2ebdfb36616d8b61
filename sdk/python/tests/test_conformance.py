"""Every scenario of sdk/conformance."""

from __future__ import annotations

from pathlib import Path

import pytest
from scenario import play

SCENARIOS = Path(__file__).parents[2] / "conformance" / "scenarios"


@pytest.mark.parametrize("path", sorted(SCENARIOS.glob("*.ndjson")), ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    play(path)
