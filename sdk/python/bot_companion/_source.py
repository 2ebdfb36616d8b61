"""The bot as the rest of the package sees it. The adapter implements `Source` for the libraries, the tests for scenarios."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Json = dict[str, Any]
Member = tuple[int, Iterable[int]]
"""A user's ID, and the IDs of the user's roles."""


@dataclass(frozen=True)
class SourceGuild:
    id: int
    name: str
    icon: str | None
    owner: int
    members: int
    unavailable: bool
    raw: Any
    """The library's own object, which the callbacks receive."""


class ListingRefused(Exception):
    """Discord doesn't let this bot list members (401 or 403): retrying is pointless."""


class ListingLimited(Exception):
    """Discord rate limits the bot (429), and the library hasn't retried on its own."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"limited for {seconds:g} s")
        self.seconds = seconds


class Source(Protocol):
    def name(self) -> str:
        """The bot's name."""
        ...

    def library(self) -> str | None:
        """The library's name and version."""
        ...

    def shard_count(self) -> int: ...

    def own_shards(self) -> Sequence[int]:
        """The shards of this process, in ascending order; none until the library knows them."""
        ...

    def shard_health(self) -> list[Json]:
        """For each of the process's started shards: `id`, `sent_ms_ago`, `acknowledged_ms_ago`, `latency`."""
        ...

    def guild_ids(self) -> Iterable[int]:
        """All guilds that the library knows, in its order, including unavailable ones."""
        ...

    def guild(self, guild: int) -> SourceGuild | None: ...

    def cached_members(self, guild: int) -> Iterable[Member] | None:
        """All members of a guild, or `None` if the library's cache doesn't have all of them."""
        ...

    def has_members_intent(self) -> bool: ...

    async def member_page(self, guild: int, after: int) -> tuple[Sequence[Member], int | None]:
        """The members with IDs above `after`, and where the next page starts (`None` if this was the last). May raise anything."""
        ...
