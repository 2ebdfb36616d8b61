"""Reports a bot's guilds, premium, feedback and health to its bot-companion service.

    await bot.load_extension("bot_companion")

with `COMPANION_URL` and `COMPANION_BOT_KEY` in the environment. `attach` takes callbacks for what only the bot knows.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Generator
from typing import Any

from ._companion import Companion, FlagCallback, GrantsCallback, ManyCallback, make

__all__ = ["Companion", "attach", "setup", "teardown"]
__version__ = "0.1.0"

log = logging.getLogger("bot_companion")

EVENTS = (
    "connect",
    "ready",
    "shard_ready",
    "guild_join",
    "guild_available",
    "guild_remove",
    "guild_update",
    "guild_role_create",
    "guild_role_update",
    "guild_role_delete",
    "member_join",
    "member_update",
    "member_remove",
    "raw_member_remove",
)
ATTRIBUTE = "__bot_companion__"


class _Done:
    """To be awaited or not: discord.py awaits `setup` and `teardown`, its forks do not."""

    def __await__(self) -> Generator[Any, None, None]:
        return
        yield


def attach(
    bot: Any,
    *,
    url: str | None = None,
    key: str | None = None,
    grants: GrantsCallback | None = None,
    setup: FlagCallback | None = None,
    linked: FlagCallback | None = None,
    subscriptions: ManyCallback | None = None,
    team: ManyCallback | None = None,
) -> Companion:
    """Begins to report a bot, and stops with it. If the address or the key is missing, the log says so and nothing is sent."""
    url = url or os.environ.get("COMPANION_URL")
    key = key or os.environ.get("COMPANION_BOT_KEY")
    known: Companion | None = getattr(bot, ATTRIBUTE, None)
    if known is not None:
        return known
    companion = make(
        bot, url or "", key or "", grants=grants, setup=setup, linked=linked, subscriptions=subscriptions, team=team
    )
    if not url or not key:
        log.error("COMPANION_URL and COMPANION_BOT_KEY are not both set: nothing is reported")
        return companion
    try:
        connect(bot, companion)
    except Exception:
        log.exception("the bot cannot be reported")
    return companion


def connect(bot: Any, companion: Companion) -> None:
    """Hears the bot's events, and its end."""
    undo: list[Callable[[], None]] = []
    if callable(getattr(bot, "add_listener", None)):
        for event in EVENTS:
            undo.append(_listen(bot, companion, event))
    else:
        # A plain client has no listeners; its connection hands each event to this one function.
        undo.append(_overhear(bot._connection, companion))

    original = bot.close

    async def close(*args: Any, **keywords: Any) -> Any:
        try:
            await companion.close()
        except Exception:
            log.debug("closing", exc_info=True)
        return await original(*args, **keywords)

    bot.close = close
    setattr(bot, ATTRIBUTE, companion)

    def detach() -> None:
        for step in undo:
            step()
        if getattr(bot, "close", None) is close:
            bot.close = original
        if getattr(bot, ATTRIBUTE, None) is companion:
            delattr(bot, ATTRIBUTE)

    companion._detach = detach
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return  # the first event starts it
    companion.start()


def _listen(bot: Any, companion: Companion, event: str) -> Callable[[], None]:
    async def listener(*args: Any) -> None:
        companion.received(event, *args)

    bot.add_listener(listener, f"on_{event}")
    return lambda: bot.remove_listener(listener, f"on_{event}")


def _overhear(connection: Any, companion: Companion) -> Callable[[], None]:
    original = connection.dispatch

    def dispatch(event: str, *args: Any, **keywords: Any) -> Any:
        if event in EVENTS:
            companion.received(event, *args)
        return original(event, *args, **keywords)

    connection.dispatch = dispatch

    def undo() -> None:
        if connection.dispatch is dispatch:
            connection.dispatch = original

    return undo


def setup(bot: Any) -> Awaitable[None]:
    """What `load_extension` calls."""
    attach(bot)
    return _Done()


def teardown(bot: Any) -> Awaitable[None]:
    """What `unload_extension`, and the end of the bot, call."""
    companion: Companion | None = getattr(bot, ATTRIBUTE, None)
    if companion is None:
        return _Done()
    try:
        return asyncio.get_running_loop().create_task(companion.close())
    except RuntimeError:
        return _Done()
