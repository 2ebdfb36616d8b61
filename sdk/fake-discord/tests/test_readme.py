"""What the README shows works."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import sys
from pathlib import Path

import aiohttp
from conftest import Start
from raw import PATIENCE, guild

from fake_discord.faults import PLACES
from fake_discord.world import FIELDS

README = (Path(__file__).parent.parent / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


async def test_the_example_for_pytest(tmp_path: Path) -> None:
    (example,) = blocks("python")
    (tmp_path / "test_bot.py").write_text(example)
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path), cwd=tmp_path, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert process.returncode == 0 and b"2 passed" in output, output.decode()


async def test_every_control_call_has_an_example_that_works(start: Start, http: aiohttp.ClientSession) -> None:
    fake = await start(guilds=[guild(1)])
    # So that the waiting example returns at once.
    async with http.get(f"{fake.addresses()['api']}/guilds/4194304/members"):
        pass
    shown = set()
    for line in "\n".join(blocks("console")).splitlines():
        if "$CONTROL" not in line:
            continue
        words = shlex.split(line.removeprefix("$ "))
        url = next(word for word in words if word.startswith("$CONTROL"))
        body = words[words.index("-d") + 1] if "-d" in words else None
        method = words[words.index("-X") + 1] if "-X" in words else "POST" if body else "GET"
        async with http.request(method, url.replace("$CONTROL", fake.addresses()["control"]), data=body) as response:
            assert response.status == 200, (line, await response.text())
        shown.add(f"{method} {url.removeprefix('$CONTROL').partition('?')[0]}")
    calls = set(re.findall(r'add_(get|post|delete)\("/control(/\w+)"', (Path(__file__).parent.parent / "fake_discord/control.py").read_text()))
    assert shown == {f"{method.upper()} {path}" for method, path in calls}


async def test_the_world_shown_is_one_and_every_field_is_described(start: Start) -> None:
    (world,) = (json.loads(block) for block in blocks("json"))
    fake = await start(**world)
    assert fake.world.guilds[4194304].name == "Harbour"
    described = README.partition("## The world")[2].partition("## Control")[0]
    assert {field for field in FIELDS if f"| `{field}` |" not in described} == set()


def test_every_fault_is_described() -> None:
    described = README.partition("## Faults")[2].partition("## Waiting")[0]
    for place, faults in PLACES.items():
        assert f"`{place}`" in described
        assert not [fault for fault in faults if f"`{fault}`" not in described]
