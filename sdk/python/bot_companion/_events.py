"""Turns what the bot sees into marks. These methods run in the bot's event loop and never wait."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Literal

from ._budget import Budget
from ._callbacks import Callbacks
from ._heartbeat import Heartbeat
from ._marks import ASK, FIELDS, WHOLE, Marks
from ._sender import Sender
from ._snapshots import Shards
from ._staff import Staff

EventName = Literal[
    "session", "ready", "limited",
    "guild_here", "guild_unavailable", "guild_gone", "guild_changed",
    "role_changed", "role_gone",
    "member", "member_joined", "member_gone",
]  # fmt: skip
"""The methods of `Events` that the adapter calls."""


class Events:
    def __init__(
        self, shards: Shards, marks: Marks, callbacks: Callbacks, staff: Staff, budget: Budget, heartbeat: Heartbeat, sender: Sender
    ) -> None:
        self._shards = shards
        self._marks = marks
        self._callbacks = callbacks
        self._staff = staff
        self._budget = budget
        self._heartbeat = heartbeat
        self._sender = sender
        self._missed: set[int | None] = set()
        """Guilds with an event that was lost to a bug, to be sent with the next refresh; `None` stands for all."""
        self._has_sent_again = False

    # Bugs

    def missed(self, guild: int | None) -> None:
        """An event was lost to a bug: the guild's shard is sent again, or every shard. The first time, that happens immediately, and
        then only with each refresh, because the bug may hit every event."""
        self._missed.add(guild)
        if not self._has_sent_again:
            self._send_missed()

    def refresh(self) -> None:
        self._has_sent_again = False
        if self._missed:
            self._send_missed()

    def _send_missed(self) -> None:
        missed, self._missed, self._has_sent_again = self._missed, set(), True
        is_all = None in missed
        shards = {self._shards.shard_of(guild) for guild in missed if guild is not None}
        self._staff.forget(lambda guild: is_all or guild in missed)
        self._shards.make_stale(lambda shard: is_all or shard in shards)
        self._sender.later()

    # Shards

    def session(self, shard: int, guilds: Iterable[int] | None) -> None:
        """READY: a new session, with the guilds that Discord listed."""
        self._check_count()
        self._shards.session(shard, guilds)
        self._marks.drop(self._shards.is_of(shard))
        self._staff.session(self._shards.is_of(shard))
        self._heartbeat.shards_known()

    def ready(self, shard: int) -> None:
        """All guilds of the shard have arrived."""
        self._check_count()
        self._heartbeat.shards_known()
        self._heartbeat.shard_ready()
        self._sender.ready(shard)

    def _check_count(self) -> None:
        if self._shards.count_changed():
            self._marks.clear()
            self._staff.session(lambda guild: True)

    def limited(self, seconds: float) -> None:
        """Discord answered one of the bot's requests with 429 and asked to wait this long."""
        self._budget.limited(seconds)

    # Guilds

    def guild_here(self, guild: int) -> None:
        """Joined, or available again."""
        self._shards.guild_here(guild)
        self.mark(guild, WHOLE)

    def guild_unavailable(self, guild: int) -> None:
        """An outage: its members may change without an event."""
        self._staff.forget(lambda one: one == guild)

    def guild_gone(self, guild: int) -> None:
        """The bot was removed."""
        self._shards.guild_gone(guild)
        self._staff.forget(lambda one: one == guild)
        self._callbacks.forget(guild)
        self._sender.refused.changed(guild)
        if self._shards.hears(guild):
            self._marks.guild_gone(guild)
            self._sender.change()
        else:
            self._marks.forget(guild)

    def guild_changed(self, guild: int) -> None:
        """Its name, icon or owner changed."""
        self.mark(guild, FIELDS)

    def role_changed(self, guild: int) -> None:
        """Created or changed: many bots derive grants from the names or permissions of roles."""
        self.mark(guild, ASK)

    def role_gone(self, guild: int, role: int) -> None:
        self._staff.role_gone(guild, role)
        self.mark(guild, WHOLE if role in self._callbacks.granting(guild) else ASK)

    def mark(self, guild: int, what: int) -> None:
        self._sender.refused.changed(guild)
        if self._shards.hears(guild):
            self._marks.guild(guild, what)
            self._sender.change()

    # Members

    def member(self, guild: int, user: int, roles: Iterable[int]) -> None:
        """A member now has these roles."""
        roles = tuple(roles)
        matters = self._staff.member(guild, user, roles)
        # Always replaces a waiting mark of this member, because it may say that they left.
        if matters or self._marks.has_member(guild, user):
            self._mark_member(guild, user, roles)

    def member_joined(self, guild: int, user: int, roles: Iterable[int]) -> None:
        self.member(guild, user, roles)
        self._count(guild)

    def member_gone(self, guild: int, user: int) -> None:
        self._staff.member_gone(guild, user)
        self._mark_member(guild, user, None)
        self._count(guild)

    def _mark_member(self, guild: int, user: int, roles: tuple[int, ...] | None) -> None:
        if self._shards.hears(guild):
            self._marks.member(guild, user, roles)
        elif self._shards.is_own(guild):
            self._marks.hold_member(guild, user, roles)
        else:
            return
        self._sender.change()

    def _count(self, guild: int) -> None:
        if self._shards.hears(guild) and self._marks.count_changed(guild, asyncio.get_running_loop().time()):
            self._sender.later()
