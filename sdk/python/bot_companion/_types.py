"""The types for a bot's own code: what callbacks receive and return."""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Protocol, TypedDict, TypeVar, Union, get_args

GuildPermission = Literal["ERLC_MANAGER", "ERLC_ADMIN", "ERLC_STAFF", "ADMIN", "MOD", "SESSION_STARTER"]
"""What a role can grant."""

TeamPermission = Literal[
    "FOUNDER",
    "EXECUTIVE",
    "MANAGEMENT",
    "SERVICE_STAFF",
    "SUPPORT",
    "QUALITY_ASSURANCE",
    "DOCWRITER",
    "WEB_DEVELOPER",
    "BOT_DEVELOPER",
]
"""What a team member can do."""

GUILD_PERMISSIONS: tuple[str, ...] = get_args(GuildPermission)


class HasId(Protocol):
    """A role, a guild or a user of a library."""

    @property
    def id(self) -> int: ...


class Bot(Protocol):
    """What `attach` needs: a `Client` or `Bot` of discord.py or one of its forks."""

    @property
    def guilds(self) -> Sequence[HasId]: ...
    def get_guild(self, id: int, /) -> HasId | None: ...
    async def close(self) -> None: ...


class Guild(Protocol):
    """What the callbacks receive: the library's own guild object. discord.py and its forks all have these attributes."""

    @property
    def id(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def owner_id(self) -> int | None: ...
    @property
    def member_count(self) -> int | None: ...
    @property
    def unavailable(self) -> bool: ...
    @property
    def roles(self) -> Sequence[HasId]: ...
    def get_role(self, role_id: int, /) -> HasId | None: ...


class Subscription(TypedDict):
    """An entry returned by the callback `subscriptions`. All fields are required."""

    userid: int | str
    slots: int
    """How many guilds the user can choose. For display only: every listed guild has premium."""
    guilds: Sequence[int | str | HasId]
    active_until: datetime | float | None
    """When it ends: a datetime (UTC if it has no time zone), epoch seconds, or `None` if it never ends."""


class HasSubscription(Protocol):
    """The same as an object, like a row of the bot's database."""

    @property
    def userid(self) -> int | str: ...
    @property
    def slots(self) -> int: ...
    @property
    def guilds(self) -> Sequence[int | str | HasId]: ...
    @property
    def active_until(self) -> datetime | float | None: ...


class _Profile(TypedDict):
    id: int | str
    username: str


class Profile(_Profile, total=False):
    """A person, for when you don't have a user object."""

    name: str
    avatar: str | None


class _FeedbackEntry(TypedDict):
    id: int | str
    feedback: str
    rating: int
    submitter: Profile | HasId


class FeedbackEntry(_FeedbackEntry, total=False):
    """An entry for `Companion.feedback`."""

    timestamp: float | None
    """Epoch seconds. Default: now."""


class _TeamMember(TypedDict):
    discord_id: int | str
    username: str
    role: str
    color: str
    """Like `#5865F2`."""
    category: str
    """A lower-case word, like `support`."""
    position: int


class TeamMember(_TeamMember, total=False):
    """An entry returned by the callback `team`: as in `GET /team`, plus `permissions`."""

    name: str
    avatar: str | None
    permissions: Sequence[TeamPermission]


T = TypeVar("T")
MaybeAwaitable = Union[T, Awaitable[T]]

Grants = Mapping[Any, Iterable[GuildPermission]]
"""Which role (an object or an ID) grants what."""
GrantsCallback = Callable[[Any], MaybeAwaitable[Grants]]
FlagCallback = Callable[[Any], MaybeAwaitable[bool]]
AnySubscription = Union[Subscription, HasSubscription]
SubscriptionsCallback = Callable[[], Union[MaybeAwaitable[Iterable[AnySubscription]], AsyncIterable[AnySubscription]]]
TeamCallback = Callable[[], Union[MaybeAwaitable[Iterable[TeamMember]], AsyncIterable[TeamMember]]]
