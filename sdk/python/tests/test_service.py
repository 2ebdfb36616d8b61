"""The real discord.py, a fake Discord, and the real service: set BOT_COMPANION to its binary."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from service import BINARY, Service
from stage import DEADLINE, Bot, attach, discord_with, guild, make, running

from bot_companion._limits import Limits

pytestmark = pytest.mark.skipif(not BINARY, reason="BOT_COMPANION names no binary")


async def fetch(session: aiohttp.ClientSession, method: str, url: str, **headers: str) -> Any:
    async with session.request(method, url, headers=headers) as response:
        body = await response.json()
        assert response.status == 200, body
        return body["data"]


async def eventually(condition: Callable[[], Any], what: str) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + DEADLINE
    last: Any = None
    while loop.time() < end:
        try:
            last = await condition()
            if last is True:
                return
        except (aiohttp.ClientError, AssertionError) as error:
            last = error
        await asyncio.sleep(0.05)
    raise AssertionError(f"never came true: {what}; last: {last}")


def test_a_bot_shows_in_the_service_and_heals_after_a_kill(tmp_path: Path) -> None:
    async def test() -> None:
        service = Service(tmp_path)
        try:
            await service.start()
            async with aiohttp.ClientSession() as session:
                token = (await fetch(session, "POST", f"{service.url}/auth", **{"Idp-Code": "owner"}))["token"]

                async def guilds() -> dict[str, Any]:
                    url = f"{service.url}/guilds"
                    return {entry["id"]: entry for entry in await fetch(session, "GET", url, Token=token)}

                # The sandbox's people are in fixed guilds; the demo bot shows which.
                found: dict[str, Any] = {}

                async def listed() -> bool:
                    found.update(await guilds())
                    return len(found) >= 2

                await eventually(listed, "the demo's guilds")
                first, second = sorted(found)[:2]
                world = [
                    guild(1, id=first, name="Reported", owner_id="77"),
                    guild(2, id=second, name="Leaving", owner_id="77"),
                ]
                async with discord_with(world) as fake:
                    bot = make(Bot)
                    limits = Limits(heartbeat_interval=0.5, first_retry=0.05, longest_retry=0.5)
                    attach(bot, service.url, service.key, limits=limits)
                    async with running(bot, fake.world.token):

                        async def names(*expected: str) -> bool | Any:
                            now = sorted(entry["name"] for entry in (await guilds()).values())
                            return now == sorted(expected) or now

                        await eventually(lambda: names("Reported", "Leaving"), "both are listed, and no other")

                        async def alive() -> bool | Any:
                            status = await fetch(session, "GET", f"{service.url}/")
                            healthy = status["resources"]["memory"] > 0 and list(status["health"]["bot"]["shards"]) == ["0"]
                            return healthy or status

                        await eventually(alive, "the shard shows")
                        await fake.emit("GUILD_UPDATE", {"id": first, "name": "Renamed"})
                        await eventually(lambda: names("Renamed", "Leaving"), "renamed")

                        await service.kill()
                        await fake.emit("GUILD_UPDATE", {"id": first, "name": "While away"})
                        await fake.emit("GUILD_DELETE", {"id": second})
                        await service.start()
                        await eventually(lambda: names("While away"), "healed")
                        await eventually(alive, "the shard shows again")
                        assert fake.counts["identifies"] == 1 and fake.counts["resumes"] == 0, "the bot has noticed"
        finally:
            await service.kill()

    asyncio.run(test())


def test_the_three_lines_fill_the_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        service = Service(tmp_path)
        try:
            await service.start()
            monkeypatch.setenv("COMPANION_URL", service.url)
            monkeypatch.setenv("COMPANION_BOT_KEY", service.key)

            class ThreeLines(Bot):
                async def setup_hook(self) -> None:
                    await self.load_extension("bot_companion")

            async with aiohttp.ClientSession() as session, discord_with([guild(number) for number in (1, 2, 3)]) as fake:
                async with running(make(ThreeLines), fake.world.token):
                    bearer = f"Bearer {service.key}"

                    async def held() -> bool | Any:
                        state = await fetch(session, "GET", f"{service.url}/bot/state", Authorization=bearer)
                        status = await fetch(session, "GET", f"{service.url}/")
                        shards = list(status["health"]["bot"]["shards"])
                        return (state["guilds"] == 3 and shards == ["0"]) or (state, shards)

                    await eventually(held, "three guilds, one shard")
        finally:
            await service.kill()

    asyncio.run(test())
