from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from raw import Api, guild

from fake_discord import FakeDiscord

Start = Callable[..., Awaitable[FakeDiscord]]


@pytest_asyncio.fixture
async def start() -> AsyncIterator[Start]:
    """Starts a fake Discord with a world of these fields; without guilds, with two small ones."""
    started: list[FakeDiscord] = []

    async def begin(**world: Any) -> FakeDiscord:
        if "guilds" not in world and "generate" not in world:
            world["guilds"] = [guild(1), guild(2)]
        fake = FakeDiscord(world)
        await fake.start()
        started.append(fake)
        return fake

    yield begin
    for fake in started:
        await fake.stop()


@pytest_asyncio.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
def api(http: aiohttp.ClientSession) -> Callable[[FakeDiscord], Api]:
    return lambda fake: Api(fake, http)
