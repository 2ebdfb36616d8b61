"""What type checkers make of a bot's code: mypy and pyright, both in their strict modes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "typing"
PROJECT = Path(__file__).parents[1]


def run(*command: str) -> str:
    found = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)
    assert found.returncode in (0, 1), found.stdout + found.stderr
    return found.stdout


def mypy(path: Path) -> set[int]:
    output = run(sys.executable, "-m", "mypy", "--strict", "--cache-dir", os.environ.get("MYPY_CACHE_DIR", os.devnull), "--no-error-summary", str(path))
    return {int(line) for line in re.findall(rf"{path.name}:(\d+): error:", output)}


def pyright(path: Path) -> set[int]:
    strict = path.with_name("pyrightconfig.json")
    output = run(sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(strict))
    diagnostics = json.loads(output)["generalDiagnostics"]
    return {found["range"]["start"]["line"] + 1 for found in diagnostics if Path(found["file"]) == path}


@pytest.mark.parametrize("checker", [mypy, pyright])
@pytest.mark.parametrize("name", ["right.py", "wrong.py"])
def test_types(name: str, checker: object) -> None:
    path = FOLDER / name
    expected = {number for number, line in enumerate(path.read_text().splitlines(), 1) if line.endswith("# wrong")}
    assert (expected == set()) is (name == "right.py")
    assert callable(checker)
    assert checker(path) == expected
