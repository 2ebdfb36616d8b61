"""What is sent about a guild: the library's fields, the callbacks' answers, and the staff if it is completely known."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from . import _lines
from ._callbacks import Callbacks, Facts
from ._limits import Limits
from ._marks import ASK, FIELDS, WHOLE, GuildMark, Marks, MemberMark
from ._source import Json, Source, SourceGuild
from ._staff import Staff
from ._status import Status


class Guilds:
    def __init__(self, source: Source, marks: Marks, callbacks: Callbacks, staff: Staff, limits: Limits, status: Status) -> None:
        self._source = source
        self._marks = marks
        self._callbacks = callbacks
        self._staff = staff
        self._limits = limits
        self._status = status
        self.when_missed: Callable[[int], None] = lambda guild: None
        """Called when a change was lost to a bug."""

    async def snapshot_line(self, identity: int) -> tuple[bytes, list[MemberMark]]:
        """The line of a guild in a snapshot, and the marks that it makes unnecessary. A guild that can't be described is sent as
        unavailable, so the service keeps what it has."""
        try:
            guild = self._source.guild(identity)
            if guild is not None and not guild.unavailable:
                facts = await self._ask(guild)
                if facts is not None:
                    body = await self._whole(identity, facts)
                    line = None if body is None else self._checked(identity, body)
                    if body is not None and line is not None:
                        return line, self._marks.departures(identity) if "staff" in body else []
        except Exception as error:
            self._status.fault("snapshot", error)
        return _lines.unavailable(identity), []

    async def event_lines(self, mark: GuildMark) -> list[bytes]:
        """The lines for a mark; there may be none."""
        lines = [_lines.guild_gone(mark.guild)] if mark.gone else []
        if mark.what:
            try:
                line = await self._event_line(mark.guild, mark.what)
                if line is not None:
                    lines.append(line)
            except Exception as error:
                self._status.fault("event", error)
                self.when_missed(mark.guild)
        return lines

    async def _event_line(self, identity: int, what: int) -> bytes | None:
        guild = self._available(identity)
        if guild is None:
            return None
        known = facts = self._callbacks.known(identity)
        if known is None or what & (ASK | WHOLE):
            facts = await self._ask(guild)
        if facts is None:
            return None
        if facts != known:
            what |= WHOLE
        if not what & (FIELDS | WHOLE):
            return None
        body = await self._whole(identity, facts) if what & WHOLE else self._fields(identity, facts)
        return None if body is None else self._checked(identity, {"type": "guild", **body})

    def _available(self, identity: int) -> SourceGuild | None:
        guild = self._source.guild(identity)
        return None if guild is None or guild.unavailable else guild

    def _fields(self, identity: int, facts: Facts) -> Json | None:
        """Read after everything that takes time, because what changes from now on is sent again."""
        guild = self._available(identity)
        if guild is None:
            return None
        self._marks.line_sent(identity, asyncio.get_running_loop().time())
        return {**_lines.fields(guild), "setup": facts.setup, "linked": facts.linked}

    async def _ask(self, guild: SourceGuild) -> Facts | None:
        facts, complete = await self._callbacks.ask(guild)
        if not complete:
            self._marks.ask_later(guild.id, asyncio.get_running_loop().time() + self._limits.callback_retry)
        return facts

    async def _whole(self, identity: int, facts: Facts) -> Json | None:
        staff = await self._staff.of(identity, facts.granting())
        line = self._fields(identity, facts)
        if line is not None:
            line["grants"] = facts.grants
            if staff is not None:
                line["staff"] = {str(user): [str(role) for role in roles] for user, roles in staff.items()}
        return line

    def _checked(self, identity: int, line: Json) -> bytes | None:
        encoded = _lines.encode(line)
        if len(encoded) <= self._limits.line_bytes:
            return encoded
        message = f"guild {identity} is too long to be sent ({len(encoded)} bytes); the service keeps what it has"
        self._status.warn(message, once=("long", identity))
        return None
