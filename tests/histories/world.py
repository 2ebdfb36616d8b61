"""The truth: what exists on Discord and in the bot's own database, and what the service must show in the end."""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
# Of a feedback entry: it may be absent, or be what an earlier call made it.
ABSENT = None


@dataclass
class Guild:
    name: str
    owner: str
    roles: dict[str, str] = field(default_factory=dict)
    """Names by ID."""
    members: dict[str, list[str]] = field(default_factory=dict)
    """Roles by user ID, without the bot."""
    unavailable: bool = False

    def on_discord(self, identity: str) -> Json:
        """As the fake Discord's world describes it."""
        return {
            "id": identity,
            "name": self.name,
            "owner_id": self.owner,
            "unavailable": self.unavailable,
            "roles": [{"id": role, "name": name} for role, name in self.roles.items()],
            "members": [{"user": {"id": user, "username": f"user{user}"}, "roles": roles} for user, roles in self.members.items()],
        }


@dataclass
class Settings:
    """What the bot's database knows about a guild. It outlives the bot's membership."""

    grants: dict[str, list[str]] = field(default_factory=dict)
    setup: bool = False
    linked: bool = False


@dataclass
class World:
    shards: int = 1
    guilds: dict[str, Guild] = field(default_factory=dict)
    settings: dict[str, Settings] = field(default_factory=dict)
    subscriptions: list[Json] = field(default_factory=list)
    team: list[Json] = field(default_factory=list)
    feedback: dict[str, list[Json | None]] = field(default_factory=dict)
    """What an entry may be in the end: normally one thing. After data was lost, anything that it was before."""

    def on_discord(self) -> Json:
        return {
            "shards": self.shards,
            "guilds": [guild.on_discord(identity) for identity, guild in self.guilds.items()],
            "member_request_interval": 0,
            "send_limit": 100_000,
            "global_rate_limit": None,
            "session_start_limit": {"total": 100_000, "remaining": 100_000},
        }

    def in_database(self, callbacks: str) -> Json:
        """What the bot's callbacks read: `callbacks` is "", "fail" or "hang"."""
        settings = {identity: vars(known) for identity, known in self.settings.items()}
        return {"callbacks": callbacks, "guilds": settings, "subscriptions": self.subscriptions, "team": self.team}

    def apply(self, step: Json) -> None:
        """Changes the truth. Steps that change nothing in it are ignored."""
        change = getattr(self, f"_{step['do']}", None)
        if change is not None:
            change(**{name: copy.deepcopy(value) for name, value in step.items() if name != "do"})

    # On Discord

    def _guild_joined(self, guild: str, name: str, owner: str, roles: dict[str, str], members: dict[str, list[str]]) -> None:
        self.guilds[guild] = Guild(name, owner, roles, members)
        self.settings.setdefault(guild, Settings())

    def _guild_left(self, guild: str) -> None:
        del self.guilds[guild]

    def _guild_changed(self, guild: str, name: str, owner: str) -> None:
        self.guilds[guild].name, self.guilds[guild].owner = name, owner

    def _role_created(self, guild: str, role: str, name: str) -> None:
        self.guilds[guild].roles[role] = name

    _role_changed = _role_created

    def _role_deleted(self, guild: str, role: str, forgotten: bool) -> None:
        del self.guilds[guild].roles[role]
        for roles in self.guilds[guild].members.values():
            if role in roles:
                roles.remove(role)
        if forgotten:
            self.settings[guild].grants.pop(role, None)

    def _member_joined(self, guild: str, user: str, roles: list[str]) -> None:
        self.guilds[guild].members[user] = roles

    _member_changed = _member_joined

    def _member_left(self, guild: str, user: str) -> None:
        del self.guilds[guild].members[user]

    def _outage(self, guild: str) -> None:
        self.guilds[guild].unavailable = True

    def _outage_over(self, guild: str) -> None:
        self.guilds[guild].unavailable = False

    def _session_lost(self, shard: int | None, missed: list[Json]) -> None:
        for step in missed:
            self.apply(step)

    # In the bot's database

    def _settings(self, guild: str, grants: dict[str, list[str]], setup: bool, linked: bool, everything: bool) -> None:
        self.settings[guild] = Settings(grants, setup, linked)

    def _subscriptions(self, entries: list[Json]) -> None:
        self.subscriptions = entries

    def _team(self, members: list[Json]) -> None:
        self.team = members

    # Feedback

    def _feedback(self, id: str, text: str, rating: int) -> None:
        self.feedback[id] = [{"feedback": text, "rating": rating}]

    def _feedback_gone(self, id: str) -> None:
        self.feedback[id] = [ABSENT]

    def _data_lost(self) -> None:
        self._may_be_lost()

    def _backup_restored(self) -> None:
        self._may_be_lost()

    def _may_be_lost(self) -> None:
        """The service's data was replaced by an older state. Of feedback, the bot only has what waits."""
        for id in self.feedback:
            self.feedback[id] = ANYTHING

    # What the service must show

    def expected(self) -> Json:
        return {
            "guilds": {identity: self._expected_guild(identity) for identity in self.guilds},
            "subscriptions": united(self.subscriptions, time.time()),
            "team": [{**member, "permissions": sorted(member["permissions"])} for member in self.team],
        }

    def _expected_guild(self, identity: str) -> Json:
        guild, settings = self.guilds[identity], self.settings[identity]
        staff = {user: sorted(set(roles) & settings.grants.keys()) for user, roles in guild.members.items()}
        return {
            "name": guild.name,
            "owner": guild.owner,
            "members": len(guild.members) + 1,
            "setup": settings.setup,
            "linked": settings.linked,
            "grants": {role: sorted(keys) for role, keys in settings.grants.items() if keys},
            "staff": {user: roles for user, roles in staff.items() if roles},
        }


ANYTHING: list[Json | None] = []


def united(entries: list[Json], now: float) -> Json:
    """One subscription per user: the guilds together, the slots added, the latest end, without those that have ended, unless all have."""
    by_user: dict[str, list[Json]] = {}
    for entry in entries:
        by_user.setdefault(entry["userid"], []).append(entry)
    found = {}
    for user, own in by_user.items():
        active = [entry for entry in own if entry["active_until"] is None or entry["active_until"] > now] or own
        ends = [entry["active_until"] for entry in active]
        found[user] = {
            "slots": sum(entry["slots"] for entry in active),
            "guilds": sorted({guild for entry in active for guild in entry["guilds"]}),
            "active_until": None if None in ends else max(ends),
        }
    return found


def differences(world: World, shown: Json) -> list[str]:
    found: list[str] = []
    _compare("", world.expected(), {name: shown[name] for name in ("guilds", "subscriptions", "team")}, found)
    for id, allowed in world.feedback.items():
        entry = shown["feedback"].get(id)
        if allowed is not ANYTHING and entry not in allowed:
            found.append(f"feedback/{id}: the service has {entry}, not {allowed[0]}")
    found += [f"feedback/{id}: nobody gave it" for id in shown["feedback"] if id not in world.feedback]
    return found


def _compare(where: str, expected: Any, shown: Any, found: list[str]) -> None:
    if isinstance(expected, dict) and isinstance(shown, dict):
        for name in sorted(expected.keys() | shown.keys()):
            inside = f"{where}/{name}" if where else name
            if name not in shown:
                found.append(f"{inside}: the service doesn't have it; it should be {expected[name]}")
            elif name not in expected:
                found.append(f"{inside}: should not be there; the service has {shown[name]}")
            else:
                _compare(inside, expected[name], shown[name], found)
    elif expected != shown:
        found.append(f"{where}: the service has {shown}, not {expected}")
