"""Reports a bot's guilds, premium, feedback and health to its bot-companion service.

    await bot.load_extension("bot_companion")

with `COMPANION_URL` and `COMPANION_BOT_KEY` in the environment. Pass callbacks to `attach` for what only the bot knows.
`python -m bot_companion doctor` finds problems with the setup.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Generator
from typing import Any

from . import _configuration
from ._attach import attach_to, attached
from ._companion import Companion
from ._feedback import Delivery
from ._limits import Limits
from ._status import Counters, StatusReport, write
from ._types import (
    Bot,
    FeedbackEntry,
    FlagCallback,
    Grants,
    GrantsCallback,
    Guild,
    GuildPermission,
    Profile,
    Subscription,
    SubscriptionsCallback,
    TeamCallback,
    TeamMember,
    TeamPermission,
)

__all__ = [
    "Companion",
    "Counters",
    "Delivery",
    "FeedbackEntry",
    "Grants",
    "Guild",
    "GuildPermission",
    "Limits",
    "Profile",
    "StatusReport",
    "Subscription",
    "TeamMember",
    "TeamPermission",
    "attach",
    "setup",
    "teardown",
]
__version__ = "0.1.0"


def attach(
    bot: Bot,
    *,
    url: str | None = None,
    key: str | None = None,
    grants: GrantsCallback | None = None,
    setup: FlagCallback | None = None,
    linked: FlagCallback | None = None,
    subscriptions: SubscriptionsCallback | None = None,
    team: TeamCallback | None = None,
    spool: str | None = None,
    sigterm: bool = True,
    limits: Limits | None = None,
) -> Companion:
    """Starts reporting for a bot, and stops when the bot does. Call it once, before the bot starts or in `setup_hook`.

    If not given, `url`, `key` and `spool` come from COMPANION_URL, COMPANION_BOT_KEY and COMPANION_SPOOL. If the configuration is invalid, an error
    is logged and nothing is sent; this never raises. `sigterm=False` leaves SIGTERM alone. `limits` changes the defaults, for example
    `Limits(listing_rate=5)`.
    """
    callbacks: dict[str, Any] = {
        "grants": grants,
        "setup": setup,
        "linked": linked,
        "subscriptions": subscriptions,
        "team": team,
    }
    known = attached(bot)
    if known is not None:
        given = [name for name, callback in callbacks.items() if callback is not None]
        given += [name for name, value in {"url": url, "key": key, "spool": spool, "limits": limits}.items() if value is not None]
        if given:
            write(
                logging.WARNING,
                "the bot is already attached (by another `attach`, or by load_extension); "
                f"ignoring {', '.join(given)} from this call. Attach once, with everything, or unload the extension first",
            )
        return known
    try:
        configuration: _configuration.Configuration | None = _configuration.read(url, key, spool)
    except _configuration.ConfigurationError as error:
        write(logging.ERROR, f"{error}. Nothing is reported until this is fixed")
        configuration = None
    if limits is not None and not isinstance(limits, Limits):  # pyright: ignore[reportUnnecessaryIsInstance]
        write(logging.ERROR, "`limits` must be a `bot_companion.Limits`, for example Limits(listing_rate=5); using the defaults")
        limits = None
    return attach_to(bot, configuration, sigterm, callbacks, limits)


class _Done:
    """Can be awaited or not: discord.py awaits `setup` and `teardown`, its forks don't."""

    def __await__(self) -> Generator[Any, None, None]:
        return
        yield


def setup(bot: Any) -> Awaitable[None]:
    """Called by `load_extension`."""
    attach(bot)
    return _Done()


def teardown(bot: Any) -> Awaitable[None]:
    """Called by `unload_extension`, and when the bot closes."""
    companion = attached(bot)
    if companion is None:
        return _Done()
    try:
        return asyncio.get_running_loop().create_task(companion.close())
    except RuntimeError:
        return _Done()
