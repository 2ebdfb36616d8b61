"""A guild and its members."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from . import shapes
from .intents import GUILD_PRESENCES
from .shapes import Json

# From this size on, Discord sends with GUILD_CREATE only who is in voice, and the bot.
HUGE = 75_000


class Members:
    """The members of a guild by id. Those of a generated guild are made when they are asked for, so that a big world stays small."""

    def __init__(self, listed: Iterable[Json] = (), generated: range = range(0), make: Callable[[int], Json] | None = None) -> None:
        self._changed: dict[int, Json] = {int(entry["user"]["id"]): entry for entry in listed}
        self._gone: set[int] = set()
        self._generated = generated
        self._make = make
        self._sorted: list[int] | None = None

    def ids(self) -> list[int]:
        """All ids, in ascending order."""
        if self._sorted is None:
            made = (identity for identity in self._generated if identity not in self._gone)
            self._sorted = sorted({*made, *self._changed})
        return self._sorted

    def __len__(self) -> int:
        return len(self.ids())

    def __contains__(self, identity: int) -> bool:
        return self.given(identity) is not None

    def given(self, identity: int) -> Json | None:
        """A member as the world describes it."""
        if identity in self._changed:
            return self._changed[identity]
        if self._make is not None and identity in self._generated and identity not in self._gone:
            return self._make(identity)
        return None

    def get(self, identity: int) -> Json | None:
        """A member as Discord sends it."""
        given = self.given(identity)
        return None if given is None else shapes.member(given)

    def all_given(self) -> Iterator[Json]:
        for identity in self.ids():
            given = self.given(identity)
            if given is not None:
                yield given

    def in_voice(self) -> list[Json]:
        return [given for given in self._changed.values() if given.get("voice_channel_id")]

    def put(self, given: Json) -> None:
        identity = int(given["user"]["id"])
        if identity not in self:
            self._sorted = None
        self._changed[identity] = given

    def remove(self, identity: int) -> Json | None:
        given = self.given(identity)
        self._changed.pop(identity, None)
        self._gone.add(identity)
        self._sorted = None
        return given


class Guild:
    """A guild. The bot is a member of it, and a world need not say so."""

    def __init__(self, given: Json, bot: Json, members: Members | None = None) -> None:
        self.id = int(given["id"])
        self.bot_id = int(bot["id"])
        self.unavailable = bool(given.get("unavailable", False))
        everyone = {"id": str(self.id), "name": "@everyone", "position": 0}
        self.roles: dict[str, Json] = {str(entry["id"]): entry for entry in [everyone, *given.get("roles", [])]}
        self.members = Members(given.get("members", [])) if members is None else members
        self.first_member = next(iter(given.get("members", [])), None)
        if self.bot_id not in self.members:
            self.members.put({"user": bot, "roles": []})
        self.member_count = int(given["member_count"]) if "member_count" in given else len(self.members)
        known = ("id", "unavailable", "roles", "members", "member_count")
        # All other given fields.
        self.rest = {key: value for key, value in given.items() if key not in known}

    @property
    def name(self) -> str:
        return str(self.rest.get("name", f"guild{self.id}"))

    def all_roles(self) -> list[Json]:
        return [shapes.role(given) for given in self.roles.values()]

    def all_channels(self) -> list[Json]:
        return [shapes.channel(given) for given in self.rest.get("channels", [])]

    def base(self) -> Json:
        """What GUILD_UPDATE and the REST API show of it."""
        owner = self.first_member["user"]["id"] if self.first_member else self.bot_id
        return {**shapes.guild({"owner_id": str(owner), **self.rest, "id": self.id}), "roles": self.all_roles()}

    def created(self, intents: int, large_threshold: int) -> Json:
        """What GUILD_CREATE sends to a session with these intents."""
        members = self._sent_at_once(intents, large_threshold)
        online = [given for given in members if given.get("status", "offline") != "offline"]
        return {
            "threads": [],
            "stage_instances": [],
            "guild_scheduled_events": [],
            "soundboard_sounds": [],
            **self.base(),
            "channels": self.all_channels(),
            "joined_at": shapes.JOINED,
            "large": self.member_count > large_threshold,
            "unavailable": False,
            "member_count": self.member_count,
            "voice_states": [shapes.voice_state(given) for given in self.members.in_voice()],
            "members": [shapes.member(given) for given in members],
            "presences": [shapes.presence(given) for given in online] if intents & GUILD_PRESENCES else [],
        }

    def _sent_at_once(self, intents: int, large_threshold: int) -> list[Json]:
        """Discord's rule: without the presences intent only the bot and who is in voice; with it everyone, but not the offline
        members of a large guild who have neither a role nor a nickname."""
        if not intents & GUILD_PRESENCES or self.member_count > HUGE:
            bot = self.members.given(self.bot_id)
            others = [given for given in self.members.in_voice() if int(given["user"]["id"]) != self.bot_id]
            return [bot, *others] if bot is not None else others
        if self.member_count <= large_threshold:
            return list(self.members.all_given())
        return [given for given in self.members.all_given() if self._is_notable(given)]

    def _is_notable(self, given: Json) -> bool:
        online = given.get("status", "offline") != "offline"
        return bool(
            online or given.get("roles") or given.get("nick") or given.get("voice_channel_id") or int(given["user"]["id"]) == self.bot_id
        )

    def export(self) -> Json:
        """The guild as a world describes it."""
        return {
            **self.base(),
            "unavailable": self.unavailable,
            "member_count": self.member_count,
            "members": [given for given in self.members.all_given() if int(given["user"]["id"]) != self.bot_id],
        }
