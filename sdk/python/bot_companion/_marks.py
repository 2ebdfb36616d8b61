"""Marks: what has changed and waits to be sent."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass

from ._limits import Limits

FIELDS, ASK, WHOLE = 1, 2, 4
"""What is to be sent of a guild: the library's fields; everything if the callbacks say something new; everything."""


@dataclass
class GuildMark:
    guild: int
    what: int = 0
    gone: bool = False
    """`guild_gone` is to be sent, before anything else of the guild."""


@dataclass
class MemberMark:
    guild: int
    user: int
    roles: tuple[int, ...] | None
    """`None`: the member is gone."""


Mark = GuildMark | MemberMark


class Marks:
    """The changes in the order in which they came. A newer mark of the same guild or member replaces the older one, at the end."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._guilds: dict[int, GuildMark] = {}
        self._members: dict[int, dict[int, MemberMark]] = {}
        self._order: dict[tuple[int, int | None], Mark] = {}
        self._fields_sent: dict[int, float] = {}
        self._due: dict[int, tuple[float, int]] = {}
        """Guilds that are to be looked at later: when, and what for."""
        self._agenda: list[tuple[float, int]] = []

    def __len__(self) -> int:
        return len(self._order)

    @property
    def is_full(self) -> bool:
        """More wait than may."""
        return len(self._order) > self._limits.changes

    def guild(self, guild: int, what: int) -> None:
        mark = self._guilds.get(guild) or GuildMark(guild)
        mark.what |= what
        self._append(mark)

    def guild_gone(self, guild: int) -> None:
        for user in self._members.pop(guild, {}):
            del self._order[guild, user]
        self._due.pop(guild, None)
        self._fields_sent.pop(guild, None)
        self._append(GuildMark(guild, gone=True))

    def member(self, guild: int, user: int, roles: tuple[int, ...] | None) -> None:
        self._append(MemberMark(guild, user, roles))

    def _append(self, mark: Mark) -> None:
        if isinstance(mark, GuildMark):
            self._guilds[mark.guild] = mark
            key: tuple[int, int | None] = (mark.guild, None)
        else:
            self._members.setdefault(mark.guild, {})[mark.user] = mark
            key = (mark.guild, mark.user)
        self._order.pop(key, None)
        self._order[key] = mark

    def take(self) -> Mark | None:
        """The oldest mark, which is then no longer one."""
        if not self._order:
            return None
        key = next(iter(self._order))
        mark = self._order.pop(key)
        self._forget(mark)
        return mark

    def _forget(self, mark: Mark) -> None:
        if isinstance(mark, GuildMark):
            del self._guilds[mark.guild]
        else:
            members = self._members[mark.guild]
            del members[mark.user]
            if not members:
                del self._members[mark.guild]

    def clear(self) -> None:
        for waiting in (self._guilds, self._members, self._order, self._due, self._agenda):
            waiting.clear()

    def drop(self, is_of_shard: Callable[[int], bool]) -> None:
        """Drops the marks of a shard that is sent whole. Who has left a guild is in no snapshot, so that stays."""
        for key, mark in list(self._order.items()):
            if is_of_shard(mark.guild) and (isinstance(mark, GuildMark) or mark.roles is not None):
                del self._order[key]
                self._forget(mark)
        for guild in [guild for guild in self._due if is_of_shard(guild)]:
            del self._due[guild]

    # What is to be looked at later

    def count_changed(self, guild: int, now: float) -> bool:
        """The member count of a guild has changed. Its fields are sent when the last ones are old enough. False if they were due anyway."""
        if self._due.get(guild, (0.0, 0))[1] & FIELDS:
            return False
        last = self._fields_sent.get(guild)
        when = now + self._limits.gather_time
        if last is not None:
            when = max(when, last + self._limits.member_count_interval)
        self._schedule(guild, when, FIELDS)
        return True

    def ask_later(self, guild: int, when: float) -> None:
        """The guild's callbacks are asked again."""
        self._schedule(guild, when, ASK)

    def _schedule(self, guild: int, when: float, what: int) -> None:
        known = self._due.get(guild)
        if known is not None:
            when, what = min(when, known[0]), what | known[1]
        self._due[guild] = (when, what)
        heapq.heappush(self._agenda, (when, guild))

    def fields_sent(self, guild: int, now: float) -> None:
        self._fields_sent[guild] = now
        known = self._due.get(guild)
        if known is None:
            return
        if known[1] & ASK:
            self._due[guild] = (known[0], ASK)
        else:
            del self._due[guild]

    def next_due(self) -> float | None:
        """When the next of them is due."""
        while self._agenda:
            when, guild = self._agenda[0]
            if self._due.get(guild, (None,))[0] == when:
                return when
            heapq.heappop(self._agenda)
        return None

    def ripen(self, now: float) -> None:
        """What is due becomes marks, behind all others."""
        while (when := self.next_due()) is not None and when <= now:
            _, guild = heapq.heappop(self._agenda)
            _, what = self._due.pop(guild)
            known = self._guilds.get(guild)
            if known is not None:
                known.what |= what
            else:
                self.guild(guild, what)
