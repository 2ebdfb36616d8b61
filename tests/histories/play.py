"""Plays a history with a real bot and a real service, and compares what the service has in the end with the truth."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

from fake_discord import FakeDiscord

from generate import History
from processes import HERE, Bot, Failed, Service, until
from proxy import Proxy
from shown import shown
from world import World, differences

Json = dict[str, Any]
COMMANDS: dict[str, list[str]] = {
    "python": [],
    "js": ["node", str(HERE / "bot.mjs")],
    "rust": [],
}
# In seconds; short, so that a history is.
LIMITS = {
    "heartbeat_interval": 0.25, "gather_time": 0.02, "member_count_interval": 0.1, "callback_timeout": 0.4, "callback_retry": 0.2,
    "listing_rate": 1000.0, "listing_retry": 0.1, "longest_listing_retry": 0.4, "stall_timeout": 1.0, "flush_interval": 0.2,
    "first_retry": 0.05, "longest_retry": 0.2, "close_timeout": 2.0,
}  # fmt: skip
# A pause in a history isn't longer than this, even if the bot sends nothing.
LONGEST_WAIT = 0.7
# So long a history waits for the truth to arrive. It may not, so this isn't an error.
LONGEST_SETTLING = 10.0
# Discord's name of an event, by the step's.
EVENTS = {
    "guild_joined": "GUILD_CREATE", "guild_left": "GUILD_DELETE", "guild_changed": "GUILD_UPDATE",
    "role_created": "GUILD_ROLE_CREATE", "role_changed": "GUILD_ROLE_UPDATE", "role_deleted": "GUILD_ROLE_DELETE",
    "member_joined": "GUILD_MEMBER_ADD", "member_changed": "GUILD_MEMBER_UPDATE", "member_left": "GUILD_MEMBER_REMOVE",
}  # fmt: skip


class Player:
    def __init__(self, history: History, language: str, folder: Path, template: Service) -> None:
        self._history = history
        self._world: World = history.world
        self._folder = folder
        self._fake = FakeDiscord(self._world.on_discord())
        self._proxy = Proxy()
        self._service = Service(folder, template.database, template.key)
        self._database = folder / "database.json"
        self._broken_callbacks = ""
        self._language = language
        # A process of the bot has ended, and the service may not know it.
        self._needs_silence = False
        self._copies_stopped = 0
        # The first entry of the fake Discord's log that belongs to the bot's process.
        self._started_at = 0
        self.seconds = 0.0
        self.status: Json = {}

    async def play(self) -> list[str]:
        """The differences in the end; empty if there are none."""
        began = asyncio.get_running_loop().time()
        await self._fake.start()
        self._bot, self._copy = self._make("bot"), self._make("copy")
        try:
            await self._proxy.start()
            self._proxy.target = await self._service.start()
            self._write_database()
            await self._bot_started()
            for step in self._history.steps:
                await self._take(step)
            await self._end_of_faults()
            return await self._final_differences()
        finally:
            for bot in (self._bot, self._copy):
                await bot.stop()
            await self._service.stop()
            await self._proxy.stop()
            await self._fake.stop()
            self.seconds = asyncio.get_running_loop().time() - began

    def _make(self, name: str) -> Bot:
        refresh = 1.0 if self._history.loses_data else 300.0
        given = {
            **self._fake.addresses(), "url": self._proxy.url, "key": self._service.key, "spool": str(self._folder / f"{name}.spool"),
            "database": str(self._database), "shards": self._world.shards, "cached": self._history.cached,
            "limits": {**LIMITS, "refresh_interval": refresh},
        }  # fmt: skip
        return Bot(COMMANDS[self._language], given, self._folder / f"{name}.log")

    def _write_database(self) -> None:
        new = self._database.with_suffix(".new")
        new.write_text(json.dumps(self._world.in_database(self._broken_callbacks)))
        new.replace(self._database)

    async def _tell(self, **command: Any) -> None:
        """Tells every process of the bot."""
        for bot in (self._bot, self._copy):
            if bot.running:
                await bot.tell(**command)

    # Steps

    async def _take(self, step: Json) -> None:
        guild = self._world.guilds.get(step.get("guild", ""))
        was_unavailable = guild is not None and guild.unavailable
        self._world.apply(step)
        self._write_database()
        if step["do"] in EVENTS:
            kind, data = event(step)
            # During an outage, Discord says nothing about a guild.
            if was_unavailable:
                self._fake.change(kind, data)
            else:
                await self._fake.emit(kind, data)
        else:
            await getattr(self, f"_{step['do']}")(**{name: value for name, value in step.items() if name != "do"})

    async def _outage(self, guild: str) -> None:
        await self._fake.emit("GUILD_DELETE", {"id": guild, "unavailable": True})

    async def _outage_over(self, guild: str) -> None:
        await self._fake.emit("GUILD_CREATE", {"id": guild})

    async def _session_lost(self, shard: int | None, missed: list[Json]) -> None:
        for step in missed:
            self._fake.change(*event(step))
        # Forgets the sessions before anyone could have connected again.
        await self._fake.drop(shard, forget=True)

    async def _gateway(self, how: str, resumable: bool) -> None:
        if how == "reconnect":
            await self._fake.reconnect()
        elif how == "invalid_session":
            # discord.js counts a member twice whose event is still on its way then.
            await self._tell(do="status")
            await self._fake.invalid_session(resumable=resumable)
        else:
            await self._fake.drop(code=4000 if how == "close" else None)

    async def _settings(self, guild: str, everything: bool, **_: Any) -> None:
        if everything:
            await self._tell(do="everything_changed")
        else:
            await self._tell(do="changed", guild=guild)

    async def _subscriptions(self, entries: list[Json]) -> None:
        await self._tell(do="subscriptions_changed")

    async def _team(self, members: list[Json]) -> None:
        await self._tell(do="team_changed")

    async def _feedback(self, **entry: Any) -> None:
        await self._bot.tell(do="feedback", **entry)

    async def _feedback_gone(self, id: str) -> None:
        await self._bot.tell(do="feedback_gone", id=id)

    async def _bot_stopped(self, signal: str) -> None:
        await self._bot.stop(named(signal))

    async def _bot_started(self) -> None:
        self._started_at = self._fake.record.next
        await self._bot.start()

    async def _copy_started(self) -> None:
        await self._copy.start()

    async def _copy_stopped(self, signal: str) -> None:
        # A process says that it leaves once, if it can.
        if signal == "SIGKILL" or self._proxy.faulty or self._broken_callbacks:
            self._needs_silence = True
        self._copies_stopped += 1
        await self._stop_copy(named(signal))

    async def _stop_copy(self, how: signal.Signals) -> None:
        now = asyncio.get_running_loop().time
        began = now()
        await self._copy.stop(how)
        # It can't say that it leaves if there is no service or, on a busy machine, no time.
        self._needs_silence |= not self._service.running or now() - began > LIMITS["close_timeout"] / 2

    async def _fault(self, kind: Any, times: int) -> None:
        await self._proxy.fault(kind, times)

    async def _fault_over(self) -> None:
        await self._proxy.heal()

    async def _service_stopped(self, signal: str) -> None:
        self._proxy.target = None
        await self._service.stop(named(signal))

    async def _service_started(self) -> None:
        self._proxy.target = await self._service.start()

    async def _backup(self) -> None:
        self._service.back_up()

    async def _backup_restored(self) -> None:
        # The backup may say that a copy is alive which has left since.
        self._needs_silence |= self._copies_stopped > 0
        await self._service_stopped("SIGTERM")
        self._service.restore()
        await self._service_started()

    async def _data_lost(self) -> None:
        await self._service_stopped("SIGTERM")
        self._service.lose_everything()
        await self._service_started()

    async def _callbacks(self, mode: str) -> None:
        self._broken_callbacks = mode
        self._write_database()

    async def _wait(self, requests: int) -> None:
        enough = self._proxy.requests + requests
        try:
            await until("more requests", lambda: self._proxy.requests >= enough, LONGEST_WAIT)
        except Failed:
            pass

    async def _connect(self) -> None:
        """Until Discord has sent the guilds: what comes next arrives while the library starts."""
        try:
            await self._fake.until("GUILDS_SENT", since=self._started_at, timeout=LONGEST_SETTLING)
        except TimeoutError:
            pass

    async def _settle(self) -> None:
        """Until everything is sent, if nothing stands in the way."""
        outage = any(guild.unavailable for guild in self._world.guilds.values())
        away = not self._service.running or not self._bot.running
        if self._proxy.faulty or self._broken_callbacks or self._needs_silence or outage or away:
            return

        async def settled() -> bool:
            state = (await self._bot.tell(do="status"))["state"]
            return state in ("synced", "replaced") and not differences(self._world, shown(self._service.database))

        try:
            await until("all is sent", settled, LONGEST_SETTLING)
        except Failed:
            pass

    # The end

    async def _end_of_faults(self) -> None:
        for identity, guild in self._world.guilds.items():
            if guild.unavailable:
                await self._take({"do": "outage_over", "guild": identity})
        if self._broken_callbacks:
            await self._callbacks_work()
        # A process that is busy with a broken request may not have the time to say that it leaves.
        self._needs_silence |= self._proxy.faulty and self._copy.running
        await self._proxy.heal()
        if self._copy.running:
            await self._stop_copy(signal.SIGTERM)
        if not self._bot.running:
            await self._bot.start()
        if self._needs_silence and self._service.running:
            await self._service_stopped("SIGKILL")
        if not self._service.running:
            if self._needs_silence:
                self._service.forget_silent_processes()
            await self._service_started()

    async def _callbacks_work(self) -> None:
        self._broken_callbacks = ""
        self._write_database()

    async def _final_differences(self) -> list[str]:
        """Waits until the bot says that all is sent and the service has it."""
        last: list[str] = []

        async def done() -> bool:
            nonlocal last
            status = await self._bot.tell(do="status")
            self.status = status
            last = differences(self._world, shown(self._service.database))
            if status["state"] != "synced":
                last.append(f"the bot is {status['state']}: {status}")
            return not last

        try:
            await until("the service has everything", done)
        except Failed:
            pass
        return last

    def log(self) -> str:
        """The end of the logs."""
        found = []
        for log in (self._bot.log, self._copy.log, self._service.log):
            if log.exists():
                found.append(f"--- {log.name}\n" + "\n".join(log.read_text(errors="replace").splitlines()[-40:]))
        return "\n".join(found)


def event(step: Json) -> tuple[str, Json]:
    """A step as an event of Discord."""
    kind, guild = step["do"], step["guild"]
    if kind == "guild_joined":
        known = World()
        known.apply(step)
        return EVENTS[kind], known.guilds[guild].on_discord(guild)
    if kind == "guild_left":
        return EVENTS[kind], {"id": guild}
    if kind == "guild_changed":
        return EVENTS[kind], {"id": guild, "name": step["name"], "owner_id": step["owner"]}
    if kind in ("role_created", "role_changed"):
        return EVENTS[kind], {"guild_id": guild, "role": {"id": step["role"], "name": step["name"]}}
    if kind == "role_deleted":
        return EVENTS[kind], {"guild_id": guild, "role_id": step["role"]}
    user = {"id": step["user"], "username": f"user{step['user']}"}
    return EVENTS[kind], {"guild_id": guild, "user": user, **({"roles": step["roles"]} if "roles" in step else {})}


def named(name: str) -> signal.Signals:
    return signal.Signals[name]
