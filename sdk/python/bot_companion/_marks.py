"""Marks: changes waiting to be sent."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ._limits import Limits

FIELDS, ASK, WHOLE = 1, 2, 4
"""What to send about a guild: the library's fields; everything if the callbacks say something new; everything."""


@dataclass(eq=False)
class GuildMark:
    guild: int
    what: int = 0
    gone: bool = False
    """Send `guild_gone` before anything else about the guild."""


@dataclass(eq=False)
class MemberMark:
    guild: int
    user: int
    roles: tuple[int, ...] | None
    """All of them, because what they grant may change until the mark is sent; `None` if the member is gone."""
    left: bool = False
    """The member is gone, or was before this mark. A snapshot without staff doesn't include that, so the mark outlives it."""


Mark = GuildMark | MemberMark


class Marks:
    """The changes in the order they arrived. A newer mark of the same guild or member replaces the older one and goes to the end."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._guilds: dict[int, GuildMark] = {}
        self._members: dict[int, dict[int, MemberMark]] = {}
        self._order: dict[tuple[int, int | None], Mark] = {}
        self._held: dict[tuple[int, int], MemberMark] = {}
        """Members who left a guild whose shard hasn't been sent yet: they wait for its snapshot."""
        self._line_sent: dict[int, float] = {}
        self._due: dict[int, tuple[float, int]] = {}
        """Guilds to check later: when, and for what."""
        self._agenda: list[tuple[float, int]] = []

    def __len__(self) -> int:
        """How many can be sent."""
        return len(self._order)

    @property
    def waiting(self) -> int:
        return len(self._order) + len(self._held)

    @property
    def is_full(self) -> bool:
        """More changes are waiting than allowed."""
        return self.waiting > self._limits.changes

    # Marking

    def guild(self, guild: int, what: int) -> None:
        mark = self._guilds.pop(guild, None) or GuildMark(guild)
        mark.what |= what
        self._order.pop((guild, None), None)
        self._append(mark)

    def guild_gone(self, guild: int) -> None:
        self.forget(guild)
        self._append(GuildMark(guild, gone=True))

    def forget(self, guild: int) -> None:
        """Drops every mark of a guild and of its members."""
        for user in self._members.pop(guild, {}):
            del self._order[guild, user]
        self._guilds.pop(guild, None)
        self._order.pop((guild, None), None)
        for key in [key for key in self._held if key[0] == guild]:
            del self._held[key]
        self._due.pop(guild, None)
        self._line_sent.pop(guild, None)

    def member(self, guild: int, user: int, roles: tuple[int, ...] | None) -> None:
        replaced = self._take_member(guild, user)
        left = roles is None or (replaced is not None and replaced.left)
        self._append(MemberMark(guild, user, roles, left))

    def hold_member(self, guild: int, user: int, roles: tuple[int, ...] | None) -> None:
        """Like `member`, for a shard that hasn't been sent yet. Only members who left, or what replaces that, need a mark."""
        replaced = self._take_member(guild, user)
        if roles is None or (replaced is not None and replaced.left):
            self._held[guild, user] = MemberMark(guild, user, roles, left=True)

    def has_member(self, guild: int, user: int) -> bool:
        return user in self._members.get(guild, ()) or (guild, user) in self._held

    def _append(self, mark: Mark) -> None:
        if isinstance(mark, GuildMark):
            self._guilds[mark.guild] = mark
            self._order[mark.guild, None] = mark
        else:
            self._members.setdefault(mark.guild, {})[mark.user] = mark
            self._order[mark.guild, mark.user] = mark

    def _take_member(self, guild: int, user: int) -> MemberMark | None:
        held = self._held.pop((guild, user), None)
        mark = self._order.pop((guild, user), None)
        if mark is not None:
            self._unlist(mark)
        return held if mark is None else mark  # type: ignore[return-value]

    def _unlist(self, mark: Mark) -> None:
        if isinstance(mark, GuildMark):
            del self._guilds[mark.guild]
            return
        members = self._members[mark.guild]
        del members[mark.user]
        if not members:
            del self._members[mark.guild]

    # Sending

    def take(self) -> Mark | None:
        """Removes and returns the oldest mark."""
        if not self._order:
            return None
        mark = self._order.pop(next(iter(self._order)))
        self._unlist(mark)
        return mark

    def put_back(self, marks: Iterable[Mark], hears: Callable[[int], bool]) -> None:
        """Puts marks that were taken but not sent before all others. A newer mark of the same guild or member stays where it is."""
        later, self._order = self._order, {}
        for mark in marks:
            if not hears(mark.guild):
                if isinstance(mark, MemberMark) and mark.left:
                    self._held.setdefault((mark.guild, mark.user), mark)
                continue
            newer = later.get((mark.guild, mark.user if isinstance(mark, MemberMark) else None))
            if newer is None:
                self._append(mark)
            elif isinstance(mark, MemberMark) and isinstance(newer, MemberMark):
                newer.left = newer.left or mark.left
            elif isinstance(mark, GuildMark) and isinstance(newer, GuildMark) and not newer.gone:
                newer.what, newer.gone = newer.what | mark.what, mark.gone
        self._order.update(later)

    def clear(self) -> None:
        """Drops everything."""
        for waiting in (self._guilds, self._members, self._order, self._held, self._due, self._agenda):
            waiting.clear()

    def drop(self, concerned: Callable[[int], bool]) -> None:
        """Drops the marks of guilds that will be sent as a whole. Members who left are kept until then."""
        for key, mark in list(self._order.items()):
            if concerned(mark.guild):
                del self._order[key]
                self._unlist(mark)
                if isinstance(mark, MemberMark) and mark.left:
                    self._held[mark.guild, mark.user] = mark
        for guild in [guild for guild in self._due if concerned(guild)]:
            del self._due[guild]

    def begin(self, concerned: Callable[[int], bool]) -> None:
        """These guilds are being sent as a whole, so changes are marked again. Members who left are sent after that."""
        self.drop(concerned)
        for key in [key for key in self._held if concerned(key[0])]:
            self._append(self._held.pop(key))

    def departures(self, guild: int) -> list[MemberMark]:
        """The waiting marks of members who left a guild."""
        return [mark for mark in self._members.get(guild, {}).values() if mark.left]

    def discard(self, mark: MemberMark) -> None:
        """Drops a mark, unless another one has replaced it."""
        if self._order.get((mark.guild, mark.user)) is mark:
            self._take_member(mark.guild, mark.user)

    # What to check later

    def count_changed(self, guild: int, now: float) -> bool:
        """The member count of a guild has changed. It is sent when the guild's last line is old enough. False if it was due anyway."""
        if self._due.get(guild, (0.0, 0))[1] & FIELDS:
            return False
        last = self._line_sent.get(guild)
        when = now + self._limits.gather_time
        if last is not None:
            when = max(when, last + self._limits.member_count_interval)
        self._schedule(guild, when, FIELDS)
        return True

    def ask_later(self, guild: int, when: float) -> None:
        """The guild's callbacks are called again."""
        self._schedule(guild, when, ASK)

    def _schedule(self, guild: int, when: float, what: int) -> None:
        known = self._due.get(guild)
        if known is not None:
            when, what = min(when, known[0]), what | known[1]
        self._due[guild] = (when, what)
        heapq.heappush(self._agenda, (when, guild))

    def line_sent(self, guild: int, now: float) -> None:
        """A line with the guild's fields, including its member count, was built."""
        self._line_sent[guild] = now
        known = self._due.get(guild)
        if known is not None and known[1] & ASK:
            self._due[guild] = (known[0], ASK)
        elif known is not None:
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
        """Turns what is due into marks, after all others."""
        while (when := self.next_due()) is not None and when <= now:
            _, guild = heapq.heappop(self._agenda)
            _, what = self._due.pop(guild)
            known = self._guilds.get(guild)
            if known is not None:
                known.what |= what
            else:
                self.guild(guild, what)
