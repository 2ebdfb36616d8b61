"""Breaks one rule at a time in a copy of an SDK, and runs its conformance tests: some scenario must fail."""

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
from dataclasses import dataclass, field
from pathlib import Path

from .files import FOLDER, SCENARIOS

LONGEST = 600
"""Seconds. A mutation that makes the tests run for longer has been noticed, too."""
TARGET = Path(os.environ.get("CARGO_TARGET_DIR") or FOLDER.parent / "rust" / "target").resolve()
IGNORED = shutil.ignore_patterns("__pycache__", "node_modules", "target", "dist")


@dataclass(frozen=True)
class Sdk:
    """How the scenarios are run on a copy of an SDK."""

    name: str
    table: str
    source: str
    """Where the files are that are broken."""
    commands: list[list[str]]
    """The last one is the test; what comes before may fail (a mutation need not have the right types)."""
    failed: str
    """Finds the first scenario that failed in what the test prints."""
    links: list[str] = field(default_factory=list)
    """What a copy borrows from the SDK's own folder."""
    environment: dict[str, str] = field(default_factory=dict)
    jobs: int = os.cpu_count() or 1

    @property
    def folder(self) -> Path:
        return FOLDER.parent / self.name


PYTEST = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "--tb=no", "-p", "no:cacheprovider", "tests/test_conformance.py"]
SDKS = {
    one.name: one
    for one in (
        Sdk(
            name="python",
            table="mutations.toml",
            source="bot_companion",
            commands=[PYTEST],
            failed=r"^FAILED .*\[(.+?)\]",
            environment={"PYTHONPATH": f".{os.pathsep}tests", "PYTHONDONTWRITEBYTECODE": "1", "CONFORMANCE": str(SCENARIOS)},
        ),
        Sdk(
            name="js",
            table="mutations-js.toml",
            source="src",
            commands=[
                ["node_modules/.bin/tsc", "-p", "tsconfig.test.json", "--noEmitOnError", "false"],
                ["node", "--test", "--test-reporter=tap", "target/test/test/conformance.test.js"],
            ],
            failed=r"^\s*not ok \d+ - (\S+)",
            links=["node_modules"],
        ),
        Sdk(
            name="rust",
            table="mutations-rust.toml",
            source="src",
            commands=[["cargo", "test", "--quiet", "--locked", "--test", "conformance"]],
            failed=r"^scenario (\S+) \.\.\. FAILED",
            # Not the SDK's own target folder: cargo compares only modification times, and would run the mutated copy there.
            environment={"CARGO_TARGET_DIR": str(TARGET / "mutations")},
            # One after the other in one folder, so that each build reuses the last.
            jobs=1,
        ),
    )
}


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


def load(sdk: Sdk) -> list[Mutation]:
    return [Mutation(**one) for one in tomllib.loads((FOLDER / sdk.table).read_text())["mutation"]]


def try_all(sdk: Sdk, mutations: list[Mutation], jobs: int) -> Iterator[Verdict]:
    """In the order of the table. The first thing that is tried is the SDK as it is, which must be right."""
    jobs = min(jobs, sdk.jobs)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        copies = [copy(sdk, Path(folder) / str(number)) for number in range(jobs)]
        as_it_is = test(sdk, copies[0], Mutation("nothing", "", "", ""))
        if as_it_is.noticed_by or as_it_is.problem:
            raise SystemExit(f"without any mutation this fails: {as_it_is.noticed_by or as_it_is.problem}")

        def run(mutation: Mutation) -> Verdict:
            mine = copies.pop()
            try:
                return broken(sdk, mine, mutation)
            finally:
                copies.append(mine)

        yield from pool.map(run, mutations)


def copy(sdk: Sdk, folder: Path) -> Path:
    """The SDK in its own folder, with the scenarios beside it as in the repository."""
    made = folder / sdk.name
    # With current modification times, because cargo only rebuilds what is newer than its last build.
    shutil.copytree(sdk.folder, made, ignore=IGNORED, copy_function=shutil.copy)
    (folder / "conformance").symlink_to(FOLDER)
    for link in sdk.links:
        (made / link).symlink_to(sdk.folder / link)
    return made


def broken(sdk: Sdk, folder: Path, mutation: Mutation) -> Verdict:
    path = folder / sdk.source / mutation.file
    text = path.read_text()
    if text.count(mutation.find) != 1:
        return Verdict(mutation, problem=f"the text is found {text.count(mutation.find)} times in {mutation.file}, not once")
    path.write_text(text.replace(mutation.find, mutation.replace))
    try:
        return test(sdk, folder, mutation)
    finally:
        path.write_text(text)


def test(sdk: Sdk, folder: Path, mutation: Mutation) -> Verdict:
    environment = {**os.environ, **sdk.environment}
    *before, command = sdk.commands
    try:
        for one in before:
            subprocess.run(one, cwd=folder, env=environment, capture_output=True, timeout=LONGEST)
        ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=LONGEST)
    except subprocess.TimeoutExpired:
        return Verdict(mutation, noticed_by="(the tests do not end)")
    failed = re.search(sdk.failed, ended.stdout, re.MULTILINE)
    if ended.returncode == 0:
        return Verdict(mutation)
    if failed:
        return Verdict(mutation, noticed_by=failed[1])
    return Verdict(mutation, problem=f"the tests could not run:\n{ended.stdout[-2000:]}{ended.stderr[-2000:]}")
