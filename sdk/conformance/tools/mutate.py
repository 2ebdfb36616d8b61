"""Breaks one rule at a time in a copy of the Python SDK, and runs its conformance tests: some scenario must fail."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from .files import FOLDER, SCENARIOS

TABLE = FOLDER / "mutations.toml"
SDK = FOLDER.parent / "python"
PACKAGE = "bot_companion"
TESTS = "tests/test_conformance.py"
LONGEST = 300
"""Seconds. A mutation that makes the tests run for longer has been noticed, too."""


@dataclass
class Mutation:
    rule: str
    file: str
    find: str
    replace: str


@dataclass
class Verdict:
    mutation: Mutation
    noticed_by: str = ""
    """The first scenario that failed; empty if none did."""
    problem: str = ""
    """Why it could not be tried."""


def load(path: Path = TABLE) -> list[Mutation]:
    return [Mutation(**one) for one in tomllib.loads(path.read_text())["mutation"]]


def try_all(mutations: list[Mutation], jobs: int) -> Iterator[Verdict]:
    """In the order of the table. The first thing that is tried is the SDK as it is, which must be right."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        as_it_is = Mutation("nothing", "__init__.py", "", "")
        noticed = run(Path(folder) / "as-it-is", as_it_is).noticed_by
        if noticed:
            raise SystemExit(f"without any mutation this fails: {noticed}")
        tries = [pool.submit(run, Path(folder) / str(number), one) for number, one in enumerate(mutations)]
        for each in tries:
            yield each.result()


def run(folder: Path, mutation: Mutation) -> Verdict:
    try:
        shutil.copytree(SDK / PACKAGE, folder / PACKAGE, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(SDK / "tests", folder / "tests", ignore=shutil.ignore_patterns("__pycache__"))
        problem = mutate(folder / PACKAGE / mutation.file, mutation)
        return Verdict(mutation, problem=problem) if problem else test(folder, mutation)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def mutate(path: Path, mutation: Mutation) -> str:
    if mutation.find:
        text = path.read_text()
        if text.count(mutation.find) != 1:
            return f"the text is found {text.count(mutation.find)} times in {mutation.file}, not once"
        path.write_text(text.replace(mutation.find, mutation.replace))
    return ""


def test(folder: Path, mutation: Mutation) -> Verdict:
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "--tb=no", "-p", "no:cacheprovider", TESTS]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(folder), str(folder / "tests")]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "CONFORMANCE": str(SCENARIOS),
    }
    try:
        ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=LONGEST)
    except subprocess.TimeoutExpired:
        return Verdict(mutation, noticed_by="(the tests do not end)")
    failed = re.search(r"^FAILED .*\[(.+?)\]", ended.stdout, re.MULTILINE)
    if ended.returncode == 0:
        return Verdict(mutation)
    if ended.returncode == 1 and failed:
        return Verdict(mutation, noticed_by=failed[1])
    return Verdict(mutation, problem=f"the tests could not run:\n{ended.stdout[-2000:]}{ended.stderr[-2000:]}")
