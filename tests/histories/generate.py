"""Makes a history from a seed: a world, and the steps that change it."""

from __future__ import annotations

import copy
import random
import time
from dataclasses import dataclass
from typing import Any

from proxy import KINDS
from world import Guild, World

Json = dict[str, Any]
KEYS = ("ERLC_MANAGER", "ERLC_ADMIN", "ERLC_STAFF", "ADMIN", "MOD", "SESSION_STARTER")
TEAM_KEYS = ("FOUNDER", "SUPPORT", "DOCWRITER", "BOT_DEVELOPER")
DAY = 86_400
# How often each kind of step is drawn, if it is possible.
WEIGHTS = {
    "guild_joined": 3, "guild_left": 2, "guild_changed": 3, "role_created": 2, "role_changed": 1, "role_deleted": 3,
    "member_joined": 4, "member_left": 5, "member_changed": 6, "outage": 3, "outage_over": 4, "settings": 5, "subscriptions": 3,
    "team": 2, "feedback": 3, "feedback_gone": 1, "session_lost": 3, "gateway": 3, "bot_stopped": 3, "bot_started": 10,
    "copy_started": 4, "copy_stopped": 4, "fault": 6, "fault_over": 6, "service_stopped": 3, "service_started": 10, "backup": 3,
    "backup_restored": 3, "data_lost": 1, "callbacks": 5, "wait": 8, "settle": 8, "connect": 2,
}  # fmt: skip
# Most of these make the bot send everything again, which hides what went wrong before. So each history has only some of them.
TROUBLES = (
    ("outage", "outage_over"), ("session_lost",), ("gateway",), ("bot_stopped", "bot_started"), ("copy_started", "copy_stopped"),
    ("fault", "fault_over"), ("service_stopped", "service_started"), ("backup", "backup_restored", "data_lost"), ("callbacks",),
)  # fmt: skip
# What can happen on Discord while the bot has no session.
MISSED = ("guild_joined", "guild_left", "guild_changed", "role_deleted", "member_joined", "member_left", "member_changed")


@dataclass
class History:
    seed: str
    world: World
    cached: bool
    """Whether the library caches all members."""
    steps: list[Json]

    @property
    def loses_data(self) -> bool:
        return any(step["do"] in ("backup_restored", "data_lost") for step in self.steps)


def history(seed: str) -> History:
    return Generator(seed).make()


class Generator:
    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._random = random.Random(seed)
        self._last = 100
        self._world = World(shards=self._random.choice((1, 1, 2)))
        self._bot_runs = self._service_runs = True
        self._copy_runs = self._is_faulty = self._has_backup = False
        self._left: list[str] = []
        absent = {kind for trouble in TROUBLES if self._random.random() < 0.7 for kind in trouble}
        self._weights = {kind: weight for kind, weight in WEIGHTS.items() if kind not in absent}

    def make(self) -> History:
        for _ in range(self._random.randint(1, 5)):
            self._world.apply(self._guild_joined())
        for guild in self._world.guilds:
            self._world.apply(self._settings(guild))
        self._world.apply(self._subscriptions())
        self._world.apply(self._team())
        start = copy.deepcopy(self._world)
        cached = self._random.random() < 0.7
        steps: list[Json] = [{"do": self._random.choices(("settle", "connect", "wait"), (16, 3, 1))[0]}]
        if steps[0]["do"] == "wait":
            steps[0]["requests"] = 1
        steps += [self._step() for _ in range(self._random.randint(8, 30))]
        return History(self._seed, start, cached, steps)

    def _step(self) -> Json:
        while True:
            kind = self._random.choices(list(self._weights), list(self._weights.values()))[0]
            step = self._made(kind)
            if step is not None:
                self._world.apply(step)
                return step

    def _made(self, kind: str) -> Json | None:
        """A step of this kind, or None if it isn't possible now."""
        make = getattr(self, f"_{kind}")
        if kind not in NEED_GUILD:
            made: Json | None = make()
            return made
        guilds = [identity for identity, guild in self._world.guilds.items() if kind != "outage_over" or guild.unavailable]
        step: Json | None = make(self._random.choice(guilds)) if guilds else None
        return step

    def _id(self) -> str:
        self._last += 1
        return str(self._last)

    def _some(self, of: Any, share: float = 0.5) -> list[Any]:
        return [one for one in of if self._random.random() < share]

    def _guild(self, identity: str) -> Guild:
        return self._world.guilds[identity]

    # On Discord

    def _guild_joined(self) -> Json:
        again = [guild for guild in self._left if guild not in self._world.guilds]
        identity = self._random.choice(again) if again and self._random.random() < 0.5 else str(int(self._id()) << 22)
        roles = {self._id(): f"role {number}" for number in range(self._random.randint(1, 3))}
        members = {self._id(): self._some(roles) for _ in range(self._random.randint(1, 6))}
        owner = next(iter(members))
        return {"do": "guild_joined", "guild": identity, "name": f"Guild {self._id()}", "owner": owner, "roles": roles, "members": members}

    def _guild_left(self, guild: str) -> Json | None:
        if self._guild(guild).unavailable:
            return None
        self._left.append(guild)
        return {"do": "guild_left", "guild": guild}

    def _guild_changed(self, guild: str) -> Json:
        owner = self._random.choice([self._guild(guild).owner, *self._guild(guild).members])
        return {"do": "guild_changed", "guild": guild, "name": f"Guild {self._id()}", "owner": owner}

    def _role_created(self, guild: str) -> Json:
        return {"do": "role_created", "guild": guild, "role": self._id(), "name": "new"}

    def _role_changed(self, guild: str) -> Json | None:
        roles = list(self._guild(guild).roles)
        return {"do": "role_changed", "guild": guild, "role": self._random.choice(roles), "name": self._id()} if roles else None

    def _role_deleted(self, guild: str) -> Json | None:
        roles = list(self._guild(guild).roles)
        forgotten = self._random.random() < 0.5
        return {"do": "role_deleted", "guild": guild, "role": self._random.choice(roles), "forgotten": forgotten} if roles else None

    def _member_joined(self, guild: str) -> Json:
        known = self._guild(guild)
        elsewhere = [user for other in self._world.guilds.values() for user in other.members if user not in known.members]
        user = self._random.choice([*elsewhere, self._id()])
        return {"do": "member_joined", "guild": guild, "user": user, "roles": self._some(known.roles)}

    def _member_changed(self, guild: str) -> Json | None:
        known = self._guild(guild)
        if not known.members:
            return None
        return {"do": "member_changed", "guild": guild, "user": self._random.choice(list(known.members)), "roles": self._some(known.roles)}

    def _member_left(self, guild: str) -> Json | None:
        leaving = [user for user in self._guild(guild).members if user != self._guild(guild).owner]
        return {"do": "member_left", "guild": guild, "user": self._random.choice(leaving)} if leaving else None

    def _outage(self, guild: str) -> Json | None:
        return None if self._guild(guild).unavailable else {"do": "outage", "guild": guild}

    def _outage_over(self, guild: str) -> Json:
        return {"do": "outage_over", "guild": guild}

    def _session_lost(self) -> Json | None:
        """A new session for all shards, or for one; what happens before it is missed."""
        if not self._bot_runs:
            return None
        shard = self._random.choice([None, *range(self._world.shards)])
        missed: list[Json] = []
        here, self._world = self._world, copy.deepcopy(self._world)
        for _ in range(self._random.randint(0, 3)):
            step = self._made(self._random.choice(MISSED))
            if step is not None and (shard is None or (int(step["guild"]) >> 22) % self._world.shards == shard):
                self._world.apply(step)
                missed.append(step)
        self._world = here
        return {"do": "session_lost", "shard": shard, "missed": missed}

    def _gateway(self) -> Json | None:
        how = self._random.choice(("cut", "close", "reconnect", "invalid_session"))
        return {"do": "gateway", "how": how, "resumable": self._random.random() < 0.5} if self._bot_runs else None

    # In the bot's database

    def _settings(self, guild: str) -> Json:
        roles = self._some(self._guild(guild).roles, 0.7)
        grants = {role: self._random.sample(KEYS, self._random.randint(1, 2)) for role in roles}
        setup, linked = self._random.random() < 0.5, self._random.random() < 0.5
        everything = self._random.random() < 0.1
        return {"do": "settings", "guild": guild, "grants": grants, "setup": setup, "linked": linked, "everything": everything}

    def _subscriptions(self) -> Json:
        guilds = [*self._world.guilds, str(1 << 30)]
        now = int(time.time()) // DAY * DAY
        users = [self._id() for _ in range(self._random.randint(0, 3))]
        entries = [
            {
                "userid": self._random.choice(users),
                "slots": self._random.randint(1, 3),
                "guilds": self._some(guilds),
                "active_until": self._random.choice((None, now + 3 * DAY, now + 9 * DAY, now - 5 * DAY)),
            }
            for _ in range(self._random.randint(0, 4))
            if users
        ]
        return {"do": "subscriptions", "entries": entries}

    def _team(self) -> Json:
        members = [
            {
                "discord_id": self._id(), "username": f"user{self._last}", "role": "Crew", "color": "#5865F2", "category": "support",
                "position": position, "permissions": self._some(TEAM_KEYS),
            }
            for position in range(self._random.randint(0, 3))
        ]  # fmt: skip
        return {"do": "team", "members": members}

    def _feedback(self) -> Json | None:
        if not self._bot_runs:
            return None
        known = list(self._world.feedback)
        id = self._random.choice(known) if known and self._random.random() < 0.2 else f"f{self._id()}"
        return {"do": "feedback", "id": id, "text": f"text {self._id()}", "rating": self._random.randint(1, 5)}

    def _feedback_gone(self) -> Json | None:
        known = list(self._world.feedback)
        return {"do": "feedback_gone", "id": self._random.choice(known)} if known and self._bot_runs else None

    # Processes and the network

    def _bot_stopped(self) -> Json | None:
        if not self._bot_runs:
            return None
        self._bot_runs = False
        return {"do": "bot_stopped", "signal": self._random.choice(("SIGTERM", "SIGKILL"))}

    def _bot_started(self) -> Json | None:
        if self._bot_runs:
            return None
        self._bot_runs = True
        return {"do": "bot_started"}

    def _copy_started(self) -> Json | None:
        if self._copy_runs:
            return None
        self._copy_runs = True
        return {"do": "copy_started"}

    def _copy_stopped(self) -> Json | None:
        if not self._copy_runs:
            return None
        self._copy_runs = False
        return {"do": "copy_stopped", "signal": self._random.choice(("SIGTERM", "SIGTERM", "SIGKILL"))}

    def _fault(self) -> Json:
        self._is_faulty = True
        return {"do": "fault", "kind": self._random.choice(KINDS), "times": self._random.randint(1, 3)}

    def _fault_over(self) -> Json | None:
        if not self._is_faulty:
            return None
        self._is_faulty = False
        return {"do": "fault_over"}

    def _service_stopped(self) -> Json | None:
        if not self._service_runs:
            return None
        self._service_runs = False
        return {"do": "service_stopped", "signal": self._random.choice(("SIGTERM", "SIGKILL"))}

    def _service_started(self) -> Json | None:
        if self._service_runs:
            return None
        self._service_runs = True
        return {"do": "service_started"}

    def _backup(self) -> Json:
        self._has_backup = True
        return {"do": "backup"}

    def _backup_restored(self) -> Json | None:
        if not self._has_backup:
            return None
        self._service_runs = True
        return {"do": "backup_restored"}

    def _data_lost(self) -> Json:
        self._service_runs = True
        return {"do": "data_lost"}

    def _callbacks(self) -> Json:
        return {"do": "callbacks", "mode": self._random.choice(("", "fail", "hang"))}

    def _connect(self) -> Json | None:
        return {"do": "connect"} if self._bot_runs else None

    def _settle(self) -> Json | None:
        return {"do": "settle"} if self._bot_runs else None

    def _wait(self) -> Json:
        return {"do": "wait", "requests": self._random.randint(1, 6)}


NEED_GUILD = {
    "guild_left", "guild_changed", "role_created", "role_changed", "role_deleted", "member_joined", "member_left", "member_changed", "outage",
    "outage_over", "settings",
}  # fmt: skip
