"""Lets discord.py, or a fork of it, talk to a fake Discord. Each version keeps its addresses in its own place."""

from __future__ import annotations

import importlib
from typing import Any

import yarl
from fake_discord import FakeDiscord


def use_fake(name: str, fake: FakeDiscord) -> tuple[Any, Any]:
    """The library's module, and its module of commands."""
    api = fake.addresses()["api_v10"]
    route: Any = importlib.import_module(f"{name}.http").Route
    route.BASE = route.API_BASE_URL = api
    if isinstance(vars(route).get("base"), property):  # py-cord before 2.7
        route.base = property(lambda self: api)
    socket: Any = importlib.import_module(f"{name}.gateway").DiscordWebSocket
    socket.DEFAULT_GATEWAY = yarl.URL(fake.addresses()["gateway"])
    return importlib.import_module(name), importlib.import_module(f"{name}.ext.commands")
