"""What exists: the guilds, their roles and members, in the shapes that Discord sends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

TOKEN = "OTAw.ZmFrZQ.bm90LWEtcmVhbC10b2tlbi1mb3ItdGVzdHM"
JOINED = "2024-01-01T00:00:00.000000+00:00"


def user(given: Json, bot: bool = False) -> Json:
    return {
        "username": f"user{given['id']}",
        "discriminator": "0",
        "global_name": None,
        "avatar": None,
        "bot": bot,
        "public_flags": 0,
        **given,
        "id": str(given["id"]),
    }


def member(given: Json) -> Json:
    return {
        "nick": None,
        "avatar": None,
        "joined_at": JOINED,
        "premium_since": None,
        "deaf": False,
        "mute": False,
        "pending": False,
        "flags": 0,
        **given,
        "user": user(given["user"]),
        "roles": [str(role) for role in given.get("roles", [])],
    }


def role(given: Json) -> Json:
    return {
        "name": f"role{given['id']}",
        "color": 0,
        "colors": {"primary_color": 0, "secondary_color": None, "tertiary_color": None},
        "hoist": False,
        "icon": None,
        "unicode_emoji": None,
        "position": 1,
        "permissions": "0",
        "managed": False,
        "mentionable": False,
        "flags": 0,
        **given,
        "id": str(given["id"]),
    }


class Guild:
    """A guild; the bot itself is a member of it without being listed."""

    def __init__(self, given: Json, bot: Json) -> None:
        self.id = int(given["id"])
        self.unavailable = bool(given.get("unavailable", False))
        self.bot = member({"user": bot, "roles": []})
        everyone = {"id": str(self.id), "name": "@everyone", "position": 0}
        self.roles = {str(entry["id"]): role(entry) for entry in [everyone, *given.get("roles", [])]}
        self.members = {str(entry["user"]["id"]): member(entry) for entry in given.get("members", [])}
        self.member_count = int(given.get("member_count", len(self.members) + 1))
        known = ("id", "unavailable", "roles", "members", "member_count")
        self.rest = {key: value for key, value in given.items() if key not in known}

    def base(self) -> Json:
        """What GUILD_UPDATE and the REST API show of it."""
        return {
            "name": f"guild{self.id}",
            "icon": None,
            "splash": None,
            "discovery_splash": None,
            "owner_id": next(iter(self.members), str(self.bot["user"]["id"])),
            "afk_channel_id": None,
            "afk_timeout": 300,
            "verification_level": 0,
            "default_message_notifications": 0,
            "explicit_content_filter": 0,
            "emojis": [],
            "stickers": [],
            "features": [],
            "mfa_level": 0,
            "application_id": None,
            "system_channel_id": None,
            "system_channel_flags": 0,
            "rules_channel_id": None,
            "vanity_url_code": None,
            "description": None,
            "banner": None,
            "premium_tier": 0,
            "premium_subscription_count": 0,
            "preferred_locale": "en-US",
            "public_updates_channel_id": None,
            "nsfw_level": 0,
            "premium_progress_bar_enabled": False,
            "safety_alerts_channel_id": None,
            **self.rest,
            "id": str(self.id),
            "roles": list(self.roles.values()),
        }

    def whole(self, members: bool = True) -> Json:
        """What GUILD_CREATE sends; Discord sends at most some of the members with it."""
        listed = [self.bot, *self.members.values()] if members else [self.bot]
        return {
            **self.base(),
            "joined_at": JOINED,
            "large": self.member_count > 250,
            "unavailable": False,
            "member_count": self.member_count,
            "voice_states": [],
            "members": listed,
            "channels": [],
            "threads": [],
            "presences": [],
            "stage_instances": [],
            "guild_scheduled_events": [],
            "soundboard_sounds": [],
        }

    def export(self) -> Json:
        return {**self.whole(), "unavailable": self.unavailable, "members": list(self.members.values())}


class World:
    def __init__(self, given: Json | None = None) -> None:
        given = given or {}
        self.token = str(given.get("token", TOKEN))
        self.shards = int(given.get("shards", 1))
        self.heartbeat_interval = int(given.get("heartbeat_interval", 41250))
        self.user = user({"id": "900", "username": "lantern", **given.get("user", {})}, bot=True)
        self.guilds: dict[int, Guild] = {}
        for entry in given.get("guilds", []):
            guild = Guild(entry, self.user)
            self.guilds[guild.id] = guild

    def of_shard(self, shard: int, count: int) -> Iterator[Guild]:
        return (guild for guild in self.guilds.values() if (guild.id >> 22) % count == shard)

    def export(self) -> Json:
        return {
            "token": self.token,
            "shards": self.shards,
            "heartbeat_interval": self.heartbeat_interval,
            "user": self.user,
            "guilds": [guild.export() for guild in self.guilds.values()],
        }

    def apply(self, kind: str, data: Json) -> tuple[int | None, Json]:
        """Changes the world; the guild concerned, and the event as Discord would send it."""
        if kind == "GUILD_CREATE":
            identity = int(data["id"])
            known = self.guilds.get(identity)
            given = {**(known.export() if known else {}), **data, "unavailable": False}
            guild = self.guilds[identity] = Guild(given, self.user)
            return identity, guild.whole()
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
            return guild.id, {**self._inside(guild, kind, data), "guild_id": str(guild.id)}
        return (int(data["guild_id"]) if data.get("guild_id") else None), data

    @staticmethod
    def _inside(guild: Guild, kind: str, data: Json) -> Json:
        if kind in ("GUILD_MEMBER_ADD", "GUILD_MEMBER_UPDATE"):
            identity = str(data["user"]["id"])
            known = guild.members.get(identity)
            given = {key: value for key, value in data.items() if key != "guild_id"}
            merged = {**(known or {}), **given, "user": {**(known["user"] if known else {}), **data["user"]}}
            guild.members[identity] = member(merged)
            if kind == "GUILD_MEMBER_ADD" and known is None:
                guild.member_count += 1
            return dict(guild.members[identity])
        if kind == "GUILD_MEMBER_REMOVE":
            known = guild.members.pop(str(data["user"]["id"]), None)
            guild.member_count = max(0, guild.member_count - 1)
            return {"user": known["user"] if known else user(data["user"])}
        if kind in ("GUILD_ROLE_CREATE", "GUILD_ROLE_UPDATE"):
            identity = str(data["role"]["id"])
            guild.roles[identity] = role({**guild.roles.get(identity, {}), **data["role"]})
            return {"role": guild.roles[identity]}
        if kind == "GUILD_ROLE_DELETE":
            identity = str(data["role_id"])
            guild.roles.pop(identity, None)
            for entry in guild.members.values():
                entry["roles"] = [held for held in entry["roles"] if held != identity]
            return {"role_id": identity}
        return data
