"""Points discord.py, or one of its forks, at a fake Discord."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any

import yarl

from .server import FakeDiscord


@contextlib.contextmanager
def pointed_at(fake: FakeDiscord, library: str = "discord") -> Iterator[None]:
    """Clients of the library (`discord`, `nextcord`, `disnake`; py-cord is `discord`, too) that start inside of this use the fake.
    The five seconds that the library waits between two shards are left out, unless the world enforces them."""
    route: Any = importlib.import_module(f"{library}.http").Route
    socket: Any = importlib.import_module(f"{library}.gateway").DiscordWebSocket
    client: Any = importlib.import_module(f"{library}.client").Client
    addresses = fake.addresses()
    with contextlib.ExitStack() as undo:
        # The forks use different names.
        for name in ("BASE", "API_BASE_URL"):
            _replace(undo, route, name, addresses["api_v10"])
        # Only an auto-sharded client asks for the gateway's address.
        _replace(undo, socket, "DEFAULT_GATEWAY", yarl.URL(addresses["gateway"]))
        if not fake.world.strict_identify:
            _replace(undo, client, "before_identify_hook", _no_delay)
        yield


def _replace(undo: contextlib.ExitStack, owner: Any, name: str, value: object) -> None:
    if hasattr(owner, name):
        undo.callback(setattr, owner, name, getattr(owner, name))
        setattr(owner, name, value)


async def _no_delay(client: Any, shard_id: int | None, *, initial: bool = False) -> None:
    pass
