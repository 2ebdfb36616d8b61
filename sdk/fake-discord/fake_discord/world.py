"""What exists: the application, its limits, and the guilds. And what changes it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from . import generate, shapes
from .guilds import Guild
from .intents import PRIVILEGED
from .shapes import Json

TOKEN = "OTAw.ZmFrZQ.bm90LWEtcmVhbC10b2tlbi1mb3ItdGVzdHM"
FIELDS = {
    "token", "shards", "user", "guilds", "generate", "privileged", "application", "heartbeat_interval", "strict_heartbeats",
    "max_concurrency", "strict_identify", "session_start_limit", "guilds_per_session", "resume_buffer", "send_limit",
    "member_request_interval", "rate_limits", "global_rate_limit",
}  # fmt: skip


class World:
    def __init__(self, given: Json | None = None) -> None:
        given = given or {}
        unknown = set(given) - FIELDS
        if unknown:
            raise ValueError(f"a world has no field {', '.join(sorted(unknown))}; it has {', '.join(sorted(FIELDS))}")
        self.token = str(given.get("token", TOKEN))
        self.user = shapes.user({"id": "900", "username": "lantern", **given.get("user", {})}, bot=True)
        # The ids of messages and interactions.
        self._ids = itertools.count(1 << 50)
        self.guilds: dict[int, Guild] = {}
        for guild in generate.guilds(given.get("generate", {}), self.user):
            self.guilds[guild.id] = guild
        for entry in given.get("guilds", []):
            guild = Guild(entry, self.user)
            self.guilds[guild.id] = guild
        self._read_application(given)
        self._read_limits(given)

    def _read_application(self, given: Json) -> None:
        self.application: Json = given.get("application", {})
        self.privileged: list[str] = list(given.get("privileged", PRIVILEGED))
        unknown = set(self.privileged) - set(PRIVILEGED)
        if unknown:
            raise ValueError(f"there is no privileged intent {', '.join(sorted(unknown))}; there are {', '.join(PRIVILEGED)}")
        # Discord recommends a shard per 1,000 guilds.
        self.shards = int(given.get("shards") or max(1, -(-len(self.guilds) // 1000)))

    def _read_limits(self, given: Json) -> None:
        self.heartbeat_interval = int(given.get("heartbeat_interval", 41250))
        self.strict_heartbeats = bool(given.get("strict_heartbeats", False))
        self.max_concurrency = int(given.get("max_concurrency", 16))
        self.strict_identify = bool(given.get("strict_identify", False))
        self.session_start_limit = {"total": 1000, "remaining": 1000, "reset_after": 86_400_000, **given.get("session_start_limit", {})}
        self.guilds_per_session = int(given.get("guilds_per_session", 2500))
        self.resume_buffer = int(given.get("resume_buffer", 1000))
        self.send_limit = int(given.get("send_limit", 120))
        self.member_request_interval = float(given.get("member_request_interval", 30))
        self.rate_limits: Json = given.get("rate_limits", {})
        self.global_rate_limit = given.get("global_rate_limit", 50)

    @property
    def bot_id(self) -> int:
        return int(self.user["id"])

    @property
    def allowed_intents(self) -> int:
        """The privileged intents that the application has."""
        return sum(PRIVILEGED[name] for name in set(self.privileged))

    def application_flags(self) -> int:
        """The flags that show the application's privileged intents; those of a bot in fewer than 100 guilds are other bits."""
        limited = len(self.guilds) < 100
        bits = {"presences": 12, "members": 14, "message_content": 18}
        return sum(1 << (bits[name] + limited) for name in set(self.privileged))

    def of_shard(self, shard: int, count: int) -> Iterator[Guild]:
        return (guild for guild in self.guilds.values() if (guild.id >> 22) % count == shard)

    def export(self) -> Json:
        return {
            "token": self.token,
            "shards": self.shards,
            "user": self.user,
            "application": self.application,
            "privileged": self.privileged,
            "heartbeat_interval": self.heartbeat_interval,
            "strict_heartbeats": self.strict_heartbeats,
            "max_concurrency": self.max_concurrency,
            "strict_identify": self.strict_identify,
            "session_start_limit": self.session_start_limit,
            "guilds_per_session": self.guilds_per_session,
            "resume_buffer": self.resume_buffer,
            "send_limit": self.send_limit,
            "member_request_interval": self.member_request_interval,
            "rate_limits": self.rate_limits,
            "global_rate_limit": self.global_rate_limit,
            "guilds": [guild.export() for guild in self.guilds.values()],
        }

    def apply(self, kind: str, data: Json) -> tuple[int | None, Json]:
        """Changes the world; the guild concerned, and the event as Discord would send it (of GUILD_CREATE each session gets its own)."""
        if kind == "GUILD_CREATE":
            identity = int(data["id"])
            known = self.guilds.get(identity)
            given = {**(known.export() if known else {}), **data, "unavailable": False}
            if "members" in data and "member_count" not in data:
                given.pop("member_count", None)
            self.guilds[identity] = Guild(given, self.user)
            return identity, {"id": str(identity)}
        if kind == "GUILD_DELETE":
            identity = int(data["id"])
            if data.get("unavailable"):
                self.guilds[identity].unavailable = True
                return identity, {"id": str(identity), "unavailable": True}
            self.guilds.pop(identity, None)
            return identity, {"id": str(identity)}
        if kind == "GUILD_UPDATE":
            guild = self.guilds[int(data["id"])]
            guild.rest.update({key: value for key, value in data.items() if key not in ("id", "roles", "members")})
            return guild.id, guild.base()
        if kind.startswith(("GUILD_MEMBER_", "GUILD_ROLE_")) and "guild_id" in data:
            guild = self.guilds[int(data["guild_id"])]
            return guild.id, {**_inside(guild, kind, data), "guild_id": str(guild.id)}
        guild_id = int(data["guild_id"]) if data.get("guild_id") else None
        return guild_id, self._said(kind, data, guild_id)

    def _said(self, kind: str, data: Json, guild_id: int | None) -> Json:
        """A message or an interaction, completed with what the world knows of the person; any other event as it is."""
        if kind == "MESSAGE_CREATE":
            numbered = {"id": next(self._ids), **data}
            return shapes.message(numbered, data.get("author", {"id": "1"}))
        if kind != "INTERACTION_CREATE":
            return data
        given = {"id": str(next(self._ids)), "token": f"token{next(self._ids)}", **data}
        if guild_id is not None and "member" in data:
            identity = int(data["member"]["user"]["id"])
            known = self.guilds[guild_id].members.given(identity) or {"user": {}}
            given["member"] = {**known, **data["member"], "user": {**known["user"], **data["member"]["user"]}}
        return shapes.interaction(given, str(self.user["id"]))


def _inside(guild: Guild, kind: str, data: Json) -> Json:
    """A change of a member or a role."""
    if kind in ("GUILD_MEMBER_ADD", "GUILD_MEMBER_UPDATE"):
        known = guild.members.given(int(data["user"]["id"])) or {}
        given = {key: value for key, value in data.items() if key != "guild_id"}
        merged = {**known, **given, "user": {**known.get("user", {}), **data["user"]}}
        guild.members.put(merged)
        if kind == "GUILD_MEMBER_ADD" and not known:
            guild.member_count += 1
        return shapes.member(merged)
    if kind == "GUILD_MEMBER_REMOVE":
        gone = guild.members.remove(int(data["user"]["id"]))
        guild.member_count = max(0, guild.member_count - 1)
        return {"user": shapes.user(gone["user"] if gone else data["user"])}
    if kind in ("GUILD_ROLE_CREATE", "GUILD_ROLE_UPDATE"):
        identity = str(data["role"]["id"])
        guild.roles[identity] = {**guild.roles.get(identity, {}), **data["role"]}
        return {"role": shapes.role(guild.roles[identity])}
    if kind == "GUILD_ROLE_DELETE":
        identity = str(data["role_id"])
        guild.roles.pop(identity, None)
        for given in list(guild.members.all_given()):
            if identity in map(str, given.get("roles", [])):
                guild.members.put({**given, "roles": [held for held in given["roles"] if str(held) != identity]})
        return {"role_id": identity}
    return data
