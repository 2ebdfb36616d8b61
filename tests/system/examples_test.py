"""`examples_test.py FOLDER COMMAND…`: runs an example bot, started by this command, on the fake Discord and the real service.

BOT_COMPANION names the service's binary. The fake Discord is imported, so this runs in the environment of the SDK's tests.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import sys
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from fake_discord import FakeDiscord

FOLDER, COMMAND = Path(sys.argv[1]), sys.argv[2:]
BINARY = os.environ["BOT_COMPANION"]
# Only a failing test waits this long.
DEADLINE = 300.0
# A guild of the sandbox, and people in it.
GUILD, OWNER, MODERATOR = "871203344918732833", "280114907635220483", "518336079244710917"
ADMIN_ROLE, MOD_ROLE = "871210556034695201", "871210903172411457"
WORLD: dict[str, Any] = {
    "token": "lantern.bot.token",
    "user": {"id": "900", "username": "lantern"},
    "application": {"owner": {"id": OWNER, "username": "marlow", "discriminator": "0", "avatar": None}},
    "guilds": [
        {
            "id": GUILD,
            "name": "Harbour City",
            "owner_id": OWNER,
            "roles": [{"id": ADMIN_ROLE, "name": "Harbour master"}, {"id": MOD_ROLE, "name": "Crew"}],
            "members": [
                {"user": {"id": OWNER, "username": "marlow"}, "roles": []},
                {"user": {"id": MODERATOR, "username": "samira"}, "roles": [MOD_ROLE]},
            ],
        }
    ],
}


def call(method: str, url: str, headers: dict[str, str]) -> Any:
    with urllib.request.urlopen(urllib.request.Request(url, method=method, headers=headers), timeout=60) as response:
        return json.load(response)["data"]


class Service:
    def __init__(self) -> None:
        self.listen, self.url, self.key = "127.0.0.1:0", "", ""
        self._process: asyncio.subprocess.Process | None = None
        self._tokens: dict[str, str] = {}

    async def start(self) -> None:
        said = FOLDER / "dev.json"
        with said.open("wb") as output, (FOLDER / "service.log").open("wb") as log:
            arguments = ["dev", "--json", "--no-limits", "--listen", self.listen, "--data", str(FOLDER / "service")]
            self._process = await asyncio.create_subprocess_exec(BINARY, *arguments, stdout=output, stderr=log)
        await until("the service starts", lambda: said.read_text().endswith("\n"))
        addresses = json.loads(said.read_text())
        self.url, self.key = addresses["service"], addresses["bot_key"]
        self.listen = self.url.removeprefix("http://")

    async def kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def get(self, path: str, **headers: str) -> Any:
        return await asyncio.to_thread(call, "GET", self.url + path, headers)

    async def state(self) -> Any:
        return await self.get("/bot/state", Authorization=f"Bearer {self.key}")

    async def guild_for(self, person: str) -> Any:
        """The guild as someone of the sandbox sees it in the dashboard, or None."""
        if person not in self._tokens:
            session = await asyncio.to_thread(call, "POST", f"{self.url}/auth", {"Idp-Code": person})
            self._tokens[person] = session["token"]
        guilds = await self.get("/guilds", Token=self._tokens[person])
        return next((guild for guild in guilds if guild["id"] == GUILD), None)


class Example:
    """The bot's process."""

    def __init__(self, fake: FakeDiscord, service: Service) -> None:
        self._fake = fake
        self._service = service
        self._process: asyncio.subprocess.Process | None = None
        self._ids = itertools.count(1 << 40)

    def log(self) -> str:
        file = FOLDER / "bot.log"
        return file.read_text() if file.exists() else ""

    async def start(self) -> None:
        addresses = self._fake.addresses()
        environment = {
            **os.environ,
            "DISCORD_TOKEN": self._fake.world.token,
            "COMPANION_URL": self._service.url,
            "COMPANION_BOT_KEY": self._service.key,
            "LANTERN_DATA": str(FOLDER / "bot"),
            "FAKE_DISCORD_API": addresses["api"],
            "FAKE_DISCORD_GATEWAY": addresses["gateway"],
        }
        since = self._fake.record.next
        with (FOLDER / "bot.log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(*COMMAND, stdout=log, stderr=log, env=environment, cwd=FOLDER)
        await self._fake.until("PUT /applications/{id}/commands", since=since, timeout=DEADLINE)
        await self._fake.until("GUILDS_SENT", since=since, timeout=DEADLINE)

    async def command(self, name: str, **options: Any) -> None:
        """The owner uses a slash command, and the bot answers."""
        since = self._fake.record.next
        await self._fake.emit("INTERACTION_CREATE", interaction(next(self._ids), name, options))
        await self._fake.until("POST /interactions/{id}/{token}/callback", since=since, timeout=DEADLINE)

    async def terminate(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        status = await asyncio.wait_for(self._process.wait(), DEADLINE)
        assert status == 0, f"the bot ends with {status}"

    async def kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


def interaction(identity: int, name: str, options: dict[str, Any]) -> dict[str, Any]:
    """What Discord sends when someone uses a slash command."""
    roles = {role["id"]: role for role in WORLD["guilds"][0]["roles"]}
    users = {MODERATOR: {"id": MODERATOR, "username": "samira", "discriminator": "0", "avatar": None}}
    kinds = {"admin": 8, "mod": 8, "member": 6, "rating": 4, "days": 4}
    given = [{"name": key, "type": kinds.get(key, 3), "value": value} for key, value in options.items()]
    role_fields = {"color": 0, "hoist": False, "position": 1, "permissions": "0", "managed": False, "mentionable": False, "flags": 0}
    user = WORLD["application"]["owner"]
    member = {"user": user, "roles": [], "joined_at": "2024-01-01T00:00:00Z", "deaf": False, "mute": False, "flags": 0, "permissions": "8"}
    resolved = {"roles": {key: {**role_fields, **role} for key, role in roles.items()}, "users": users}
    return {
        "id": str(identity), "application_id": "900", "type": 2, "token": f"token{identity}", "version": 1,
        "guild_id": GUILD, "guild": {"id": GUILD, "locale": "en-US", "features": []}, "guild_locale": "en-US", "locale": "en-US",
        "channel_id": "55", "channel": {"id": "55", "type": 0, "guild_id": GUILD, "name": "bridge", "permissions": "8", "position": 0,
                    "parent_id": None, "topic": None, "nsfw": False, "rate_limit_per_user": 0, "last_message_id": None, "flags": 0},
        "member": member, "entitlements": [], "app_permissions": "8", "authorizing_integration_owners": {}, "context": 0,
        "attachment_size_limit": 10485760,
        "data": {"id": "77", "name": name, "type": 1, "options": given, "resolved": resolved},
    }  # fmt: skip


async def until(what: str, condition: Callable[[], Any | Awaitable[Any]]) -> None:
    end = asyncio.get_running_loop().time() + DEADLINE
    last: Any = None
    while asyncio.get_running_loop().time() < end:
        try:
            last = condition()
            if asyncio.iscoroutine(last):
                last = await last
            if last:
                return
        except (OSError, urllib.error.URLError) as error:
            last = error
        await asyncio.sleep(0.05)
    raise SystemExit(f"never came true: {what}; last: {last!r}")


def passed(what: str) -> None:
    print(f"ok: {FOLDER.name}: {what}", flush=True)


async def test(fake: FakeDiscord, service: Service, bot: Example) -> None:
    async def seen(person: str, **expected: Any) -> bool:
        """Whether someone sees the guild in this way: its name, their role there, or one of its permissions."""
        guild = await service.guild_for(person)
        return guild is not None and all({**guild, **guild["permissions"]}.get(name) == value for name, value in expected.items())

    await bot.start()
    await until("the guild is there", lambda: seen("owner", name="Harbour City", SETUP=False, ERLC_LINKED=False))
    await until("the first sync is logged", lambda: "as lantern: 1 guild, 1 shard" in bot.log())
    assert await seen("moderator", role=None)
    passed("connects")

    await bot.command("setup", admin=ADMIN_ROLE, mod=MOD_ROLE)
    await until("the moderator may use it", lambda: seen("moderator", role="Moderator", MOD=True, ADMIN=False, SETUP=True))
    await bot.command("link", game_server="Pier 7")
    await until("it is linked", lambda: seen("owner", ERLC_LINKED=True))
    passed("a guild's settings")

    async def counts(**fields: int) -> bool:
        state = await service.state()
        return all(state[name] == value for name, value in fields.items())

    await until("premium and the team are the bot's own", lambda: counts(subscriptions=0, team=0))
    await bot.command("premium", days=30)
    await until("premium arrives", lambda: seen("owner", SERVICE_PLUS_GUILD=True))
    await bot.command("team", member=MODERATOR, title="Pilot")
    await until("the team arrives", lambda: counts(team=1))
    (pilot,) = await service.get("/team")
    assert (pilot["discord_id"], pilot["role"]) == (MODERATOR, "Pilot"), pilot
    passed("premium and the team")

    known = (await service.state())["feedback"]
    await bot.command("feedback", rating=5, text="Runs our whole city.")
    await until("feedback arrives", lambda: counts(feedback=known + 1))
    passed("feedback")

    await service.kill()
    await bot.command("feedback", rating=4, text="Said while it was away.")
    await until("the outage is logged", lambda: "the service cannot be reached" in bot.log())
    await service.start()
    await bot.terminate()
    assert await counts(feedback=known + 2), bot.log()
    passed("SIGTERM sends the feedback that waits")

    await bot.start()
    await service.kill()
    await bot.command("feedback", rating=3, text="Said before the end.")
    await bot.terminate()
    await service.start()
    assert await counts(feedback=known + 2)
    await bot.start()
    await until("the spool's feedback arrives", lambda: counts(feedback=known + 3))
    await until("the settings are still there", lambda: seen("moderator", role="Moderator", SETUP=True, ERLC_LINKED=True))
    await bot.terminate()
    passed("SIGTERM while the service is away: feedback comes after the next start")
    for secret in (service.key, fake.world.token):
        assert secret not in bot.log()


async def main() -> None:
    FOLDER.mkdir()
    fake, service = FakeDiscord(WORLD), Service()
    bot = Example(fake, service)
    await fake.start()
    try:
        await service.start()
        await test(fake, service, bot)
    except BaseException:
        print(bot.log(), file=sys.stderr)
        raise
    finally:
        await bot.kill()
        await service.kill()
        await fake.stop()


asyncio.run(main())
