"""The scenario files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = dict[str, Any]
FOLDER = Path(__file__).resolve().parent.parent
SCENARIOS = FOLDER / "scenarios"


@dataclass
class Scenario:
    path: Path
    header: Json
    steps: list[Json]

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def world(self) -> Json:
        return {"shard_count": 1, "shards": [0], "guilds": [], **self.header.get("world", {})}


def load(path: Path) -> Scenario:
    lines = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        try:
            lines.append(json.loads(line))
        except ValueError as error:
            raise ValueError(f"{path.name}, line {number}: {error}") from error
    if not lines or not all(isinstance(line, dict) for line in lines):
        raise ValueError(f"{path.name}: a scenario is one JSON object per line, the header first")
    return Scenario(path, lines[0], lines[1:])


def load_all() -> list[Scenario]:
    return [load(path) for path in sorted(SCENARIOS.glob("*.ndjson"))]


def shard_of(guild: str, count: int) -> int:
    return (int(guild) >> 22) % count
