"""Staff: who has a granting role, and whether that is completely known. An incomplete list is never sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

from ._budget import Budget
from ._callbacks import Pace, within
from ._limits import Limits
from ._source import ListingLimited, ListingRefused, Member, Source
from ._status import Status, describe

STAFF = 10_000
"""The most staff to send per guild."""

People = dict[int, tuple[int, ...]]
"""Users, and their granting roles."""


class Known:
    """The complete staff of a guild, for these granting roles."""

    def __init__(self, roles: frozenset[int], people: People, listed: bool) -> None:
        self.roles = roles
        self.people = people
        self.listed = listed


class Staff:
    def __init__(
        self,
        source: Source,
        limits: Limits,
        status: Status,
        budget: Budget,
        granting: Callable[[int], frozenset[int]],
        completed: Callable[[int], None],
    ) -> None:
        self._source = source
        self._limits = limits
        self._status = status
        self._budget = budget
        self._granting = granting
        self._completed = completed
        self._known: dict[int, Known] = {}
        self._meanwhile: dict[int, list[dict[int, Member | None]]] = {}
        """Member events that arrive while the guild's members are being read, and so are newer."""
        self._queue: dict[int, None] = {}
        self._failures: dict[int, int] = {}
        self._retries: dict[int, asyncio.TimerHandle] = {}
        self._refused = False
        self._current: tuple[int, asyncio.Task[None]] | None = None
        self._outdated = False
        """A role was deleted during the listing, so members on earlier pages may seem to have it."""
        self._wake = asyncio.Event()

    def count(self) -> int:
        return sum(len(known.people) for known in list(self._known.values()))

    async def of(self, guild: int, granting: frozenset[int]) -> People | None:
        """The staff, or `None` if it isn't completely known, in which case the members are listed."""
        roles = granting - {guild}
        if not roles:
            self._known[guild] = Known(roles, {}, listed=False)
            return {}
        cached = self._source.cached_members(guild)
        if cached is not None:
            people = await self._read(guild, roles, cached)
            self._known[guild] = Known(roles, people, listed=False)
            return self._bounded(guild, people)
        known = self._known.get(guild)
        if known is not None and known.listed and roles <= known.roles:
            people = {user: held for user, has in known.people.items() if (held := holding(has, roles))}
            self._known[guild] = Known(roles, people, listed=True)
            return self._bounded(guild, people)
        self._known.pop(guild, None)
        self._enqueue(guild)
        return None

    async def _read(self, guild: int, roles: frozenset[int], members: Iterable[Member]) -> People:
        meanwhile = self._begin(guild)
        try:
            pace = Pace(self._limits.slice)
            people: People = {}
            for index, (user, held) in enumerate(members):
                found = holding(held, roles)
                if found:
                    people[user] = found
                if index % 500 == 499:
                    await pace.breathe()
            settle(people, roles, meanwhile)
            return people
        finally:
            self._end(guild, meanwhile)

    def _begin(self, guild: int) -> dict[int, Member | None]:
        meanwhile: dict[int, Member | None] = {}
        self._meanwhile.setdefault(guild, []).append(meanwhile)
        return meanwhile

    def _end(self, guild: int, meanwhile: dict[int, Member | None]) -> None:
        # By identity, because two empty ones are equal.
        rest = [one for one in self._meanwhile.get(guild, []) if one is not meanwhile]
        if rest:
            self._meanwhile[guild] = rest
        else:
            self._meanwhile.pop(guild, None)

    def _bounded(self, guild: int, people: People) -> People:
        if len(people) <= STAFF:
            return people
        message = f"guild {guild} has more than {STAFF} members with a granting role; the others are not sent"
        self._status.warn(message, once=("staff", guild))
        return dict(list(people.items())[:STAFF])

    # Events

    def member(self, guild: int, user: int, roles: tuple[int, ...]) -> bool:
        """A member joined, or their roles changed. Returns whether the granting roles differ from what is known."""
        for meanwhile in self._meanwhile.get(guild, ()):
            meanwhile[user] = (user, roles)
        known = self._known.get(guild)
        if known is None:
            return bool(self._granting(guild) - {guild})
        held = holding(roles, known.roles)
        if held == known.people.get(user, ()):
            return False
        if held:
            known.people[user] = held
        else:
            del known.people[user]
        return True

    def member_gone(self, guild: int, user: int) -> None:
        for meanwhile in self._meanwhile.get(guild, ()):
            meanwhile[user] = None
        known = self._known.get(guild)
        if known is not None:
            known.people.pop(user, None)

    def role_gone(self, guild: int, role: int) -> None:
        """Removes a deleted role from everyone."""
        if self._current is not None and self._current[0] == guild and role in self._granting(guild):
            self._outdated = True
        known = self._known.get(guild)
        if known is not None:
            held = {user: tuple(one for one in roles if one != role) for user, roles in known.people.items()}
            known.people = {user: roles for user, roles in held.items() if roles}

    def session(self, is_of_shard: Callable[[int], bool]) -> None:
        """A new session: members may have joined or left without an event. Listings are allowed again."""
        self._refused = False
        self.forget(is_of_shard)

    def forget(self, concerned: Callable[[int], bool]) -> None:
        """The bot was removed from these guilds, or events about their members were missed."""
        for guilds in (self._known, self._queue, self._failures):
            for guild in [guild for guild in guilds if concerned(guild)]:
                del guilds[guild]
        for guild in [guild for guild in self._retries if concerned(guild)]:
            self._retries.pop(guild).cancel()
        if self._current is not None and concerned(self._current[0]):
            self._current[1].cancel()
            self._current = None

    # Listings

    def _enqueue(self, guild: int) -> None:
        under_way = self._current is not None and self._current[0] == guild
        if self._refused or under_way or guild in self._queue or guild in self._retries:
            return
        if not self._source.has_members_intent():
            self._refuse("it is not one of the client's intents")
            return
        self._queue[guild] = None
        self._wake.set()

    def _refuse(self, reason: str) -> None:
        self._refused = True
        self._queue.clear()
        for retry in self._retries.values():
            retry.cancel()
        self._retries.clear()
        message = (
            f"the client lacks the intent GUILD_MEMBERS (members): {reason}; staff cannot be found, so the service keeps what it "
            "has. Turn on the Server Members Intent in Discord's developer portal, and set `intents.members = True`"
        )
        self._status.warn(message, once="intent")

    async def run(self) -> None:
        """Lists the members of the waiting guilds, one guild at a time."""
        try:
            while True:
                self._wake.clear()
                while self._queue:
                    guild = next(iter(self._queue))
                    del self._queue[guild]
                    task = asyncio.ensure_future(self._list(guild))
                    self._current = (guild, task)
                    await asyncio.wait({task})
                    self._current = None
                await self._wake.wait()
        finally:
            for retry in self._retries.values():
                retry.cancel()
            if self._current is not None:
                self._current[1].cancel()

    async def _list(self, guild: int) -> None:
        meanwhile = self._begin(guild)
        try:
            while True:
                roles = self._granting(guild) - {guild}
                if not roles or self._source.guild(guild) is None:
                    return
                self._outdated = False
                people = await self._pages(guild, roles)
                if not self._outdated and self._granting(guild) - {guild} <= roles:
                    break
            settle(people, roles, meanwhile)
            self._known[guild] = Known(roles, people, listed=True)
            self._failures.pop(guild, None)
            self._status.counters["listings"] += 1
            self._status.forget("listing")
            self._completed(guild)
        except ListingRefused as error:
            self._status.counters["listing_failures"] += 1
            self._refuse(describe(error))
        except Exception as error:
            self._failed(guild, error)
        finally:
            self._end(guild, meanwhile)

    async def _pages(self, guild: int, roles: frozenset[int]) -> People:
        people: People = {}
        after: int | None = 0
        while after is not None:
            page, after = await self._page(guild, after)
            for user, held in page:
                found = holding(held, roles)
                if found:
                    people[user] = found
        return people

    async def _page(self, guild: int, after: int) -> tuple[Sequence[Member], int | None]:
        while True:
            await self._budget.turn()
            limits = self._budget.times_limited
            try:
                return await within(self._limits.stall_timeout, self._source.member_page(guild, after))
            except ListingLimited as limit:
                if self._budget.times_limited == limits:
                    self._budget.limited(limit.seconds)
            except ListingRefused:
                raise
            except Exception:
                # The library waits too long for a rate limit to end, or fails on one (nextcord 2.6, if it has no bucket).
                if self._budget.times_limited == limits:
                    raise

    def _failed(self, guild: int, error: Exception) -> None:
        self._status.counters["listing_failures"] += 1
        stalled = isinstance(error, TimeoutError)
        reason = f"no response for {self._limits.stall_timeout:g} s" if stalled else describe(error)
        message = f"the members of guild {guild} cannot be listed: {reason}; the service keeps its staff as it is, retrying"
        self._status.warn(message, once="listing")
        failures = self._failures[guild] = self._failures.get(guild, 0) + 1
        delay = min(self._limits.longest_listing_retry, self._limits.listing_retry * 2.0 ** min(failures - 1, 32))
        self._retries[guild] = asyncio.get_running_loop().call_later(delay, self._retry, guild)

    def _retry(self, guild: int) -> None:
        del self._retries[guild]
        self._enqueue(guild)


def holding(held: Iterable[int], roles: frozenset[int]) -> tuple[int, ...]:
    """Which of the granting roles a member has, in ascending order."""
    found = roles.intersection(held)
    return tuple(sorted(found)) if found else ()


def settle(people: People, roles: frozenset[int], meanwhile: dict[int, Member | None]) -> None:
    """Events that arrived while the members were being read take precedence."""
    for user, member in meanwhile.items():
        people.pop(user, None)
        if member is not None and (found := holding(member[1], roles)):
            people[user] = found
