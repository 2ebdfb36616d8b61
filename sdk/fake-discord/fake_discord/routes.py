"""The routes of the REST API."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from . import shapes
from .guilds import Guild
from .record import matches
from .shapes import Json

if TYPE_CHECKING:
    from .server import FakeDiscord

OWNER = {"id": "901", "username": "owner", "discriminator": "0", "avatar": None, "global_name": None, "public_flags": 0}
Answer = tuple[int, Any]


class ApiError(Exception):
    def __init__(self, status: int, code: int, message: str, errors: Json | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.errors = status, code, message, errors

    @property
    def is_unknown_route(self) -> bool:
        return self.status == 404 and self.code == 0

    def body(self) -> Json:
        return {"message": self.message, "code": self.code, **({"errors": self.errors} if self.errors else {})}


def unknown(what: str, code: int) -> ApiError:
    return ApiError(404, code, f"Unknown {what}")


@dataclass
class Call:
    method: str
    path: str
    query: dict[str, str]
    body: Any
    parts: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.parts = self.path.strip("/").split("/")

    def number(self, name: str, default: int, low: int, high: int) -> int:
        """A number from the query, parsed as strictly as Discord does."""
        text = self.query.get(name, str(default))
        if not text.isdigit():
            raise self._invalid(name, "NUMBER_TYPE_COERCE", f'Value "{text}" is not int.')
        if not low <= int(text) <= high:
            bound = f"less than or equal to {high}" if int(text) > high else f"greater than or equal to {low}"
            raise self._invalid(name, "NUMBER_TYPE_MAX" if int(text) > high else "NUMBER_TYPE_MIN", f"int value should be {bound}.")
        return int(text)

    @staticmethod
    def _invalid(name: str, code: str, message: str) -> ApiError:
        return ApiError(400, 50035, "Invalid Form Body", {name: {"_errors": [{"code": code, "message": message}]}})


class Routes:
    def __init__(self, fake: FakeDiscord) -> None:
        self.fake = fake
        self._ids = itertools.count(1 << 50)
        # Commands by scope: "" for global ones, otherwise the guild's ID.
        self._commands: dict[str, list[Json]] = {}
        self._table: list[tuple[str, Callable[[Call], Awaitable[Answer]]]] = [
            ("GET /gateway", self._gateway),
            ("GET /gateway/bot", self._gateway_bot),
            ("GET /users/@me", self._me),
            ("GET /users/@me/guilds", self._my_guilds),
            ("GET /applications/@me", self._application),
            ("GET /oauth2/applications/@me", self._application),
            ("* /applications/{id}/commands", self._all_commands),
            ("* /applications/{id}/guilds/{id}/commands", self._all_commands),
            ("* /applications/{id}/commands/{id}", self._one_command),
            ("* /applications/{id}/guilds/{id}/commands/{id}", self._one_command),
            ("GET /applications/{id}/emojis", self._no_emojis),
            ("GET /soundboard-default-sounds", self._no_sounds),
            ("GET /guilds/{id}", self._guild),
            ("GET /guilds/{id}/roles", self._roles),
            ("GET /guilds/{id}/channels", self._channels),
            ("GET /guilds/{id}/members", self._members),
            ("GET /guilds/{id}/members/search", self._search),
            ("GET /guilds/{id}/members/{id}", self._member),
            ("PUT /guilds/{id}/members/{id}/roles/{id}", self._change_role),
            ("DELETE /guilds/{id}/members/{id}/roles/{id}", self._change_role),
            ("GET /users/{id}", self._user),
            ("POST /channels/{id}/messages", self._message),
            ("POST /interactions/{id}/{token}/callback", self._callback),
            ("POST /webhooks/{id}/{token}", self._follow_up),
            ("* /webhooks/{id}/{token}/messages/{id}", self._follow_up),
        ]

    async def find(self, call: Call) -> Answer:
        what = f"{call.method} {call.path}"
        for pattern, route in self._table:
            if matches(pattern, what):
                return await route(call)
        raise ApiError(404, 0, "404: Not Found")

    # The bot itself

    async def _gateway(self, call: Call) -> Answer:
        return 200, {"url": self.fake.gateway_url()}

    async def _gateway_bot(self, call: Call) -> Answer:
        world = self.fake.world
        limit = {**world.session_start_limit, "max_concurrency": world.max_concurrency}
        return 200, {"url": self.fake.gateway_url(), "shards": world.shards, "session_start_limit": limit}

    async def _me(self, call: Call) -> Answer:
        return 200, {**self.fake.world.user, "verified": True, "mfa_enabled": False, "locale": "en-US", "flags": 0, "email": None}

    async def _my_guilds(self, call: Call) -> Answer:
        limit = call.number("limit", 200, 1, 200)
        after, before = int(call.query.get("after", 0)), int(call.query.get("before", 1 << 64))
        ids = sorted(identity for identity in self.fake.world.guilds if after < identity < before)
        page = ids[-limit:] if "before" in call.query and "after" not in call.query else ids[:limit]
        return 200, [self._partial(self.fake.world.guilds[identity], call.query.get("with_counts") == "true") for identity in page]

    def _partial(self, guild: Guild, with_counts: bool) -> Json:
        base = guild.base()
        shown = {key: base[key] for key in ("id", "name", "icon", "banner", "features")}
        counts = {"approximate_member_count": guild.member_count, "approximate_presence_count": 1} if with_counts else {}
        return {**shown, "owner": base["owner_id"] == self.fake.world.user["id"], "permissions": "0", **counts}

    async def _application(self, call: Call) -> Answer:
        world = self.fake.world
        return 200, {
            "id": world.user["id"],
            "name": world.user["username"],
            "icon": None,
            "description": "",
            "bot_public": True,
            "bot_require_code_grant": False,
            "verify_key": "00",
            "owner": OWNER,
            "team": None,
            "rpc_origins": [],
            "tags": [],
            "bot": world.user,
            "approximate_guild_count": len(world.guilds),
            "flags": world.application_flags(),
            "flags_new": str(world.application_flags()),
            **world.application,
        }

    # Application commands

    def _command(self, given: Json, call: Call) -> Json:
        scope = {"guild_id": call.parts[3]} if call.parts[2] == "guilds" else {}
        known = {"type": 1, "description": "", "options": [], "default_member_permissions": None, "nsfw": False, "contexts": None}
        return {**known, **given, "id": str(next(self._ids)), "application_id": call.parts[1], "version": str(next(self._ids)), **scope}

    async def _all_commands(self, call: Call) -> Answer:
        scope = call.parts[3] if call.parts[2] == "guilds" else ""
        commands = self._commands.setdefault(scope, [])
        if call.method == "PUT":
            commands[:] = [self._command(given, call) for given in call.body or []]
        elif call.method == "POST":
            made = self._command(call.body or {}, call)
            commands[:] = [one for one in commands if (one.get("name"), one["type"]) != (made.get("name"), made["type"])] + [made]
            return 201, made
        return 200, commands

    async def _one_command(self, call: Call) -> Answer:
        commands = self._commands.get(call.parts[3] if call.parts[2] == "guilds" else "", [])
        found = next((one for one in commands if one["id"] == call.parts[-1]), None)
        if found is None:
            raise unknown("application command", 10063)
        if call.method == "DELETE":
            commands.remove(found)
            return 204, None
        if call.method == "PATCH":
            found.update(call.body or {})
        return 200, found

    # Requested by some libraries when they start

    async def _no_emojis(self, call: Call) -> Answer:
        return 200, {"items": []}

    async def _no_sounds(self, call: Call) -> Answer:
        return 200, []

    # Guilds and members

    def _guild_of(self, call: Call) -> Guild:
        guild = self.fake.world.guilds.get(int(call.parts[1])) if call.parts[1].isdigit() else None
        if guild is None:
            raise unknown("Guild", 10004)
        return guild

    async def _guild(self, call: Call) -> Answer:
        guild = self._guild_of(call)
        counts = {"approximate_member_count": guild.member_count, "approximate_presence_count": 1}
        return 200, {**guild.base(), **(counts if call.query.get("with_counts") == "true" else {})}

    async def _roles(self, call: Call) -> Answer:
        return 200, self._guild_of(call).all_roles()

    async def _channels(self, call: Call) -> Answer:
        return 200, self._guild_of(call).all_channels()

    async def _members(self, call: Call) -> Answer:
        guild = self._guild_of(call)
        if "members" not in self.fake.world.privileged:
            raise ApiError(403, 50001, "Missing Access")
        limit, after = call.number("limit", 1, 1, 1000), call.number("after", 0, 0, 1 << 64)
        ids = guild.members.ids()
        start = bisect_right(ids, after)
        return 200, [guild.members.get(identity) for identity in ids[start : start + limit]]

    async def _search(self, call: Call) -> Answer:
        guild, limit = self._guild_of(call), call.number("limit", 1, 1, 1000)
        query = call.query.get("query", "").casefold()
        found = (shapes.member(given) for given in guild.members.all_given())
        named = [one for one in found if any(str(name or "").casefold().startswith(query) for name in (one["user"]["username"], one["nick"]))]
        return 200, named[:limit]

    async def _member(self, call: Call) -> Answer:
        found = self._guild_of(call).members.get(int(call.parts[3])) if call.parts[3].isdigit() else None
        if found is None:
            raise unknown("Member", 10007)
        return 200, found

    async def _change_role(self, call: Call) -> Answer:
        guild, (_, found) = self._guild_of(call), await self._member(call)
        role = call.parts[5]
        if role not in guild.roles:
            raise unknown("Role", 10011)
        held = [one for one in found["roles"] if one != role] + ([role] if call.method == "PUT" else [])
        await self.fake.emit("GUILD_MEMBER_UPDATE", {"guild_id": guild.id, "user": {"id": call.parts[3]}, "roles": held})
        return 204, None

    async def _user(self, call: Call) -> Answer:
        for guild in self.fake.world.guilds.values():
            given = guild.members.given(int(call.parts[1])) if call.parts[1].isdigit() else None
            if given is not None:
                return 200, shapes.user(given["user"])
        raise unknown("User", 10013)

    # The bot's messages, which tests read from the recorded requests

    async def _message(self, call: Call) -> Answer:
        return 200, self._written(call.body, call.parts[1])

    def _written(self, given: Any, channel: str) -> Json:
        """A message from the bot."""
        own = given if isinstance(given, dict) else {}
        return shapes.message({**own, "id": next(self._ids), "channel_id": channel, "author": {}}, self.fake.world.user)

    async def _callback(self, call: Call) -> Answer:
        if call.query.get("with_response") not in ("true", "1"):
            return 204, None
        given = call.body if isinstance(call.body, dict) else {}
        message = self._written(given.get("data"), "1")
        resource = {"type": given.get("type", 4), **({"message": message} if given.get("type", 4) in (4, 7) else {})}
        return 200, {"interaction": {"id": call.parts[1], "type": 2, "response_message_id": message["id"]}, "resource": resource}

    async def _follow_up(self, call: Call) -> Answer:
        """A message after the callback, or an edit of the first one."""
        return (204, None) if call.method == "DELETE" else (200, self._written(call.body, "1"))
