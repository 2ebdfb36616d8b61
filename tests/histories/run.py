"""`run.py [--language python,js,rust] [--seeds 10] [--seed N] [--jobs 4]`: plays random histories, and says which end wrong."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from generate import history
from play import COMMANDS, Player
from processes import HERE, REPOSITORY, Service


async def prepare(folder: Path) -> Service:
    """An empty database with a key, which every history starts from."""
    template = Service(folder)
    await template.create_key()
    await template.start()
    await template.stop()
    return template


async def play(seed: str, language: str, folder: Path, template: Service) -> bool:
    made = history(seed)
    steps = [json.dumps(step) for step in made.steps]
    player = Player(made, language, folder, template)
    log = ""
    try:
        found = await player.play()
    except Exception as error:
        found = [f"{type(error).__name__}: {error}"]
    finally:
        log = player.log()
    if not found:
        print(f"ok: {language} {seed}: {len(steps)} steps, {player.seconds:.1f} s, {player.status['counters']['requests']} requests of the last process", flush=True)
        return True
    about = f"{made.world.shards} shards, {'all' if made.cached else 'no'} members cached"
    report = [f"unequal: {language} {seed}: {about}", *(f"  {step}" for step in steps), "differences:", *(f"  {one}" for one in found), log]
    print("\n".join(report), flush=True)
    print(f"again: tests/system/histories --language {language} --seed {seed}", flush=True)
    return False


async def main() -> int:
    parser = argparse.ArgumentParser(prog="tests/system/histories", description="Plays random histories with real bots and the real service.")
    parser.add_argument("--language", default="python,js,rust", help="python, js or rust; several with commas (all)")
    parser.add_argument("--seeds", type=int, default=10, help="how many histories per language (10)")
    parser.add_argument("--seed", action="append", help="play this one; can be repeated")
    parser.add_argument("--jobs", type=int, default=4, help="how many at the same time (4)")
    arguments = parser.parse_args()
    languages: list[str] = arguments.language.split(",")
    unknown = set(languages) - set(COMMANDS)
    if unknown:
        parser.error(f"there is no bot in {', '.join(sorted(unknown))}; there are {', '.join(COMMANDS)}")
    commit = subprocess.check_output(["git", "rev-parse", "--short=10", "HEAD"], cwd=REPOSITORY, text=True).strip()
    seeds = arguments.seed or [f"{commit}-{number}" for number in range(arguments.seeds)]
    COMMANDS["python"][:] = [sys.executable, str(HERE / "bot.py")]
    COMMANDS["rust"][:] = [os.environ.get("HISTORIES_RUST_BOT", "")]
    # Ends what was started, too.
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="companion-histories-"))
    try:
        template = await prepare(folder / "template")
        turns = asyncio.Semaphore(arguments.jobs)

        async def in_turn(number: int, seed: str, language: str) -> bool:
            async with turns:
                return await play(seed, language, folder / f"{number}-{language}-{seed}", template)

        outcomes = await asyncio.gather(*(in_turn(number, seed, language) for number, seed in enumerate(seeds) for language in languages))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{outcomes.count(True)} of {len(outcomes)} histories end right, in {time.monotonic() - began:.0f} s", flush=True)
    return 0 if all(outcomes) else 1


try:
    sys.exit(asyncio.run(main()))
except asyncio.CancelledError:
    sys.exit(143)
