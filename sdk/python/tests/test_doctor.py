"""The doctor, as people run it: against the real service where there is one, else its model, and the fake Discord."""

from __future__ import annotations

import asyncio
import email.utils
import os
import stat
import sys
import time
from pathlib import Path
from typing import Any

import discord
import pytest
from aiohttp import web
from feed_model import KEY
from service import BINARY, Service
from stage import DEADLINE, discord_with, feed_server, guild

from bot_companion._doctor import SKEW, clock, library


async def doctor(*arguments: str, **environment: str) -> tuple[int, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("COMPANION_", "DISCORD_"))}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bot_companion", "doctor", *arguments,
        env={**inherited, **environment}, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    output, _ = await asyncio.wait_for(process.communicate(), DEADLINE)
    assert process.returncode is not None
    return process.returncode, output.decode()


def lines(output: str) -> dict[str, str]:
    """What is said about each subject, with its mark."""
    found: dict[str, str] = {}
    for line in output.splitlines()[:-1]:
        found[line[7:18].strip()] = line[:6].strip() + " " + line[19:]
    return found


def test_all_is_well(tmp_path: Path) -> None:
    async def test() -> None:
        async with feed_server() as server, discord_with([guild(1)]) as fake:
            code, output = await doctor(
                "--grant-keys", "ADMIN,MOD", "--discord-api", fake.addresses()["api_v10"],
                COMPANION_URL=server.url, COMPANION_BOT_KEY=KEY, DISCORD_TOKEN=fake.token, COMPANION_SPOOL=str(tmp_path / "spool"),
            )  # fmt: skip
            assert code == 0, output
            assert output.splitlines()[-1] == "all is well"
            assert all(text.startswith("ok ") for text in lines(output).values()), output
            assert set(lines(output)) == {"address", "key", "clock", "library", "intents", "grant keys", "spool"}
            assert KEY not in output and fake.token not in output
            assert not list(tmp_path.iterdir()), "the check leaves nothing behind"

    asyncio.run(test())


def test_everything_is_wrong(tmp_path: Path) -> None:
    async def test() -> None:
        async with feed_server() as server, discord_with([guild(1)], privileged=[]) as fake:
            locked = tmp_path / "folder"
            code, output = await doctor(
                "--grant-keys", "ADMN,OWNER", "--discord-api", fake.addresses()["api_v10"], "--spool", str(locked / "spool"),
                COMPANION_URL=server.url, COMPANION_BOT_KEY="bck_wrong", DISCORD_TOKEN=fake.token,
            )  # fmt: skip
            assert code == 1, output
            assert output.splitlines()[-1] == 'something is wrong: see the lines that begin with "wrong"'
            said = lines(output)
            assert said["address"].startswith("ok ")
            assert said["key"].startswith("wrong") and "revoked" in said["key"] and said["key"].count("key create") == 1
            assert said["intents"].startswith("wrong") and "Server Members Intent" in said["intents"]
            assert "wrong  grant keys  no role can grant ADMN: did you mean ADMIN?" in output
            assert said["spool"].startswith("wrong") and str(locked) in said["spool"]

    asyncio.run(test())


@pytest.mark.parametrize(
    ("environment", "about", "says"),
    [
        ({}, "address", "COMPANION_URL is empty or not set"),
        ({"COMPANION_URL": "127.0.0.1:9"}, "address", "no scheme"),
        ({"COMPANION_URL": "http://user:bck_secret@127.0.0.1:9"}, "address", "name or password"),
        ({"COMPANION_URL": "http://127.0.0.1:9"}, "address", "does not answer"),
        ({"COMPANION_URL": "http://127.0.0.1:9", "COMPANION_BOT_KEY": "bck_secret\n"}, "key", "line break"),
    ],
)
def test_wrong_configuration(environment: dict[str, str], about: str, says: str) -> None:
    code, output = asyncio.run(doctor(**environment))
    assert code == 1 and lines(output)[about].startswith("wrong") and says in lines(output)[about]
    assert "bck_secret" not in output


def test_the_library() -> None:
    assert str(library()).startswith(f"ok     library     discord.py {discord.__version__} has")
    found = library(no_dispatch_and_no_chunks)
    assert found.ok is False and "GUILD_MEMBERS_CHUNK, dispatch" in found.text
    assert library(lambda: None).ok is None


def no_dispatch_and_no_chunks() -> discord.Client:
    client = discord.Client(intents=discord.Intents.none())
    client._connection.parsers = {event: parser for event, parser in client._connection.parsers.items() if event != "GUILD_MEMBERS_CHUNK"}
    client._connection.dispatch = None  # type: ignore[assignment]
    return client


def test_another_server() -> None:
    async def test() -> None:
        async def page(request: web.Request) -> web.Response:
            return web.Response(text="<html>")

        app = web.Application()
        app.router.add_get("/bot/state", page)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port = runner.addresses[0][1]
        code, output = await doctor(COMPANION_URL=f"http://127.0.0.1:{port}", COMPANION_BOT_KEY=KEY)
        assert code == 1 and "not from a bot-companion service" in lines(output)["address"]
        await runner.cleanup()

    asyncio.run(test())


def test_the_clock() -> None:
    now = time.time()

    def date(at: float) -> dict[str, str]:
        return {"Date": email.utils.formatdate(at, usegmt=True)}

    assert clock(date(now), now).ok
    assert "ahead of" in clock(date(now - 2 * SKEW), now).text and clock(date(now - 2 * SKEW), now).ok is False
    assert "behind" in clock(date(now + 2 * SKEW), now).text
    assert clock({}, now).ok is None and clock({"Date": "today"}, now).ok is None


def test_a_wrong_token_and_the_help() -> None:
    async def test() -> None:
        async with discord_with([guild(1)]) as fake:
            api = fake.addresses()["api_v10"]
            _, output = await doctor("--discord-api", api, DISCORD_TOKEN="not.the.token")
            assert "refuses DISCORD_TOKEN" in lines(output)["intents"]
        code, output = await doctor("--help")
        assert code == 0 and "--grant-keys" in output and "DISCORD_TOKEN" in output

    asyncio.run(test())


@pytest.mark.skipif(not BINARY, reason="BOT_COMPANION names no binary")
def test_with_the_real_service(tmp_path: Path) -> None:
    async def test() -> None:
        service = Service(tmp_path)
        try:
            await service.start()
            code, output = await doctor(COMPANION_URL=service.url, COMPANION_BOT_KEY=service.key)
            assert code == 0, output
            assert output.splitlines()[-1] == "all is well"
            assert lines(output)["key"].startswith("ok the service accepts it; it has")
            assert lines(output)["clock"].startswith("ok")
            code, output = await doctor(COMPANION_URL=service.url, COMPANION_BOT_KEY=service.key[:-1] + "_")
            assert code == 1 and "refuses COMPANION_BOT_KEY" in lines(output)["key"]
        finally:
            await service.kill()

    asyncio.run(test())


def test_a_spool_in_use_is_no_mistake(tmp_path: Path) -> None:
    from bot_companion._limits import Limits
    from bot_companion._spool import Spool
    from bot_companion._status import Status

    path = tmp_path / "spool"
    spool: Any = Spool(str(path), Limits(), Status())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    _, output = asyncio.run(doctor("--spool", str(path)))
    assert lines(output)["spool"].startswith("ok") and "in use" in lines(output)["spool"]
    spool.close()
