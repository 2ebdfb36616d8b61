"""Connects a companion to a bot: its events, its end, and SIGTERM."""

from __future__ import annotations

import asyncio
from typing import Any

from . import _signals
from ._adapter import LibrarySource, Listener
from ._companion import Companion
from ._limits import Limits
from ._configuration import Configuration
from ._transport import HttpTransport

ATTRIBUTE = "__bot_companion__"


def attached(bot: Any) -> Companion | None:
    """The companion that reports on this bot."""
    found: Companion | None = getattr(bot, ATTRIBUTE, None)
    return found


def attach_to(
    bot: Any, configuration: Configuration | None, sigterm: bool, callbacks: dict[str, Any], limits: Limits | None
) -> Companion:
    source = LibrarySource(bot)
    if configuration is None:
        return Companion(source, None, **callbacks)
    transport = HttpTransport(configuration.url, configuration.key, limits)
    companion = Companion(source, transport, url=configuration.url, spool=configuration.spool, limits=limits, **callbacks)
    try:
        _connect(bot, source, companion, sigterm)
    except Exception as error:
        companion.log.fault("attach", error)
    return companion


def _connect(bot: Any, source: LibrarySource, companion: Companion, sigterm: bool) -> None:
    listener = Listener(bot, source, companion)
    original = bot.close

    async def close(*args: Any, **keywords: Any) -> Any:
        try:
            await companion.close()
        except Exception as error:
            companion.log.fault("close", error)
        return await original(*args, **keywords)

    def detach() -> None:
        listener.stop()
        _signals.unwatch(companion)
        if getattr(bot, "close", None) is close:
            bot.close = original
        if attached(bot) is companion:
            delattr(bot, ATTRIBUTE)

    companion.detach = detach
    if sigterm:
        companion.when_started = lambda: _signals.watch(companion)
    bot.close = close
    setattr(bot, ATTRIBUTE, companion)
    listener.start()
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return  # the first event starts it
    companion.start()
