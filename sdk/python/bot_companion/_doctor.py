"""`python -m bot_companion doctor`: checks that everything the SDK needs is set up."""

from __future__ import annotations

import argparse
import asyncio
import email.utils
import importlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import aiohttp

from . import _configuration
from ._adapter import LibrarySource, lacks, missing_hooks
from ._callbacks import probable_key
from ._companion import plural
from ._lines import without_secrets
from ._spool import check
from ._status import describe
from ._transport import NO_SERVICE
from ._types import GUILD_PERMISSIONS

DISCORD = "https://discord.com/api/v10"
MEMBERS_INTENT = 1 << 14 | 1 << 15
"""The application may use GUILD_MEMBERS: one flag for bots in 100 or more guilds, one for fewer."""
REVOKED = "`bot-companion key list` shows whether it was revoked; create one with `bot-companion key create`"
SKEW = 30.0
"""How many seconds the clocks may differ."""
TIMEOUT = aiohttp.ClientTimeout(total=30)

Json = dict[str, Any]


@dataclass(frozen=True)
class Finding:
    about: str
    text: str
    ok: bool | None = True
    """`None`: not checked."""

    def __str__(self) -> str:
        mark = {True: "ok", False: "wrong", None: "-"}[self.ok]
        return f"{mark:<6} {self.about:<11} {self.text}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bot_companion",
        description="Tools for bot-companion's Python SDK.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    doctor = commands.add_parser(
        "doctor",
        help="checks address, key, clock, library, intents, grant keys and spool",
        description="Checks what the SDK needs. Run it on the bot's machine, with the bot's environment. Each line says ok, or what to do. "
        "The exit status is 1 if something is wrong.",
        epilog="Environment: COMPANION_URL and COMPANION_BOT_KEY as the bot has them; COMPANION_SPOOL if it has a spool; "
        "DISCORD_TOKEN, the bot's token, to check its intents. Neither key nor token is printed.",
    )
    doctor.add_argument("--url", help="the service's address, instead of COMPANION_URL")
    doctor.add_argument("--spool", help="the spool file, instead of COMPANION_SPOOL")
    doctor.add_argument("--grant-keys", metavar="KEYS", help="the keys that the bot's `grants` returns, separated by commas: ADMIN,MOD")
    doctor.add_argument("--discord-api", metavar="URL", default=DISCORD, help="Discord's API (default: %(default)s)")
    given = parser.parse_args(arguments)
    wrong = False
    for finding in asyncio.run(examine(given, os.environ)):
        wrong |= finding.ok is False
        print(finding)
    print('something is wrong: see the lines that begin with "wrong"' if wrong else "all is well")
    return 1 if wrong else 0


async def examine(given: argparse.Namespace, environment: Mapping[str, str]) -> list[Finding]:
    found = await service(given.url, environment)
    found.append(library())
    found.append(await intents(environment.get("DISCORD_TOKEN", ""), given.discord_api))
    found += grant_keys(given.grant_keys)
    spool = given.spool or environment.get("COMPANION_SPOOL")
    found.append(spool_at(spool) if spool else Finding("spool", "none: waiting feedback is lost if the process is killed. Set COMPANION_SPOOL to a file", None))
    return found


async def get(url: str, authorization: str) -> tuple[int, Mapping[str, str], Json]:
    """The status, the headers, and the body if it is a JSON object."""
    async with aiohttp.ClientSession(timeout=TIMEOUT) as session:
        async with session.get(url, headers={"Authorization": authorization}, allow_redirects=False) as response:
            try:
                body: Any = json.loads(await response.content.read(1 << 20))
            except ValueError:
                body = None
            return response.status, response.headers, cast(Json, body) if isinstance(body, dict) else {}


# The service


async def service(url: str | None, environment: Mapping[str, str]) -> list[Finding]:
    found: list[Finding] = []
    address = key = ""
    try:
        key = _configuration.check_key(environment.get("COMPANION_BOT_KEY", ""), "COMPANION_BOT_KEY")
    except _configuration.ConfigurationError as error:
        found.append(Finding("key", str(error), False))
    try:
        address = _configuration.check_url(url or environment.get("COMPANION_URL", ""), "--url" if url else "COMPANION_URL").rstrip("/")
    except _configuration.ConfigurationError as error:
        return [Finding("address", str(error), False), *found]
    started = time.time()
    try:
        status, headers, body = await get(f"{address}/bot/state", f"Bearer {key or 'none'}")
    except (aiohttp.ClientError, asyncio.TimeoutError, OSError, ValueError) as error:
        text = f"{without_secrets(address)} does not answer: {describe(error)}. Is the service running there, and can this machine reach it?"
        return [Finding("address", text, False), *found]
    return [*judge(without_secrets(address), status, body, bool(key)), *found, clock(headers, (started + time.time()) / 2)]


def judge(address: str, status: int, body: Json, has_key: bool) -> Iterator[Finding]:
    if "code" not in body:
        yield Finding("address", f"{address}: {NO_SERVICE}", False)
        return
    yield Finding("address", f"the service answers at {address}")
    if not has_key:
        return
    if status == 401:
        yield Finding("key", f"the service refuses COMPANION_BOT_KEY: {REVOKED}", False)
    elif status != 200:
        yield Finding("key", f"the service answers with status {status}: try again later, and check its log", False)
    else:
        data: Json = body.get("data") or {}
        shards: list[Any] = data.get("shards") or []
        yield Finding("key", f"the service accepts it; it has {plural(data.get('guilds', 0), 'guild')} from {plural(len(shards), 'shard')}")


def clock(headers: Mapping[str, str], now: float) -> Finding:
    try:
        skew = now - email.utils.parsedate_to_datetime(headers["Date"]).timestamp()
    except (KeyError, TypeError, ValueError):
        return Finding("clock", "not checked: the response has no date", None)
    if abs(skew) <= SKEW:
        return Finding("clock", "agrees with the service's")
    direction = "ahead of" if skew > 0 else "behind"
    text = f"this machine's clock is {abs(skew):.0f} s {direction} the service's: synchronise both (NTP)"
    return Finding("clock", text, False)


# Discord, and the bot's own


def installed() -> Any:
    """A client of the installed library, unconnected; `None` if there is none."""
    for name in ("discord", "nextcord", "disnake"):
        try:
            module = importlib.import_module(name)
            return module.Client(intents=module.Intents.none())
        except ImportError:
            continue
    return None


def library(client: Callable[[], Any] = installed) -> Finding:
    """The SDK patches the library, so another version may lack what it patches."""
    bot = client()
    if bot is None:
        return Finding("library", "not checked: run this in the bot's environment, where discord.py or a fork is installed", None)
    name, missing = LibrarySource(bot).library(), missing_hooks(bot)
    return Finding("library", f"{name} {lacks(missing)}", False) if missing else Finding("library", f"{name} has everything the SDK needs")


async def intents(token: str, api: str) -> Finding:
    if not token:
        return Finding("intents", "not checked: set DISCORD_TOKEN", None)
    try:
        status, _, body = await get(f"{api.rstrip('/')}/applications/@me", f"Bot {token.strip()}")
    except (aiohttp.ClientError, asyncio.TimeoutError, OSError, ValueError) as error:
        return Finding("intents", f"Discord does not answer: {describe(error)}", False)
    if status == 401:
        return Finding("intents", "Discord refuses DISCORD_TOKEN: copy it again from the developer portal, Bot, Token", False)
    if status != 200:
        return Finding("intents", f"Discord answers with status {status}: try again later", False)
    if int(body.get("flags") or 0) & MEMBERS_INTENT:
        return Finding("intents", "the application may use GUILD_MEMBERS (the bot must request it, too: intents.members = True)")
    text = "the application may not use GUILD_MEMBERS, so staff cannot be found: turn on the Server Members Intent (developer portal, Bot)"
    return Finding("intents", text, False)


def grant_keys(given: str | None) -> list[Finding]:
    if given is None:
        return [Finding("grant keys", "not checked: pass --grant-keys", None)]
    wrong: list[Finding] = []
    keys = [key.strip() for key in given.split(",") if key.strip()]
    for key in keys:
        if key not in GUILD_PERMISSIONS:
            near = probable_key(key)
            hint = f"did you mean {near}?" if near else f"there are {', '.join(GUILD_PERMISSIONS)}"
            wrong.append(Finding("grant keys", f"no role can grant {key}: {hint}", False))
    return wrong or [Finding("grant keys", f"a role can grant {', '.join(keys)}")]


def spool_at(path: str) -> Finding:
    problem = check(path)
    if problem is None:
        return Finding("spool", f"{path} can be written")
    if "in use" in problem:
        return Finding("spool", f"{path} is in use by a running bot (each process needs its own file)")
    return Finding("spool", f"{path} cannot be used: {problem}. Use a file in a folder that the bot can write to", False)
