"""The feed's client.

Listeners only mark what has changed. One task, the pusher, turns the marks into numbered lines and sends them, one request at a time; it
alone touches the numbering. A second task sends the heartbeats. Whatever goes wrong, the way out is the same: forget the lines, and send
each shard whole again.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import random
import uuid
import zlib
from array import array
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Union

from . import _bot
from ._bot import Bot
from ._clock import Clock, SystemClock, finish, wait, within
from ._transport import Answer, HttpTransport, Transport, TransportError

log = logging.getLogger("bot_companion")

Json = dict[str, Any]
Grants = Mapping[Any, Iterable[str]]
GrantsCallback = Callable[[Any], Union[Grants, Awaitable[Grants]]]
FlagCallback = Callable[[Any], Union[bool, Awaitable[bool]]]
ManyCallback = Callable[[], Any]

BASE, ASK, WHOLE = 1, 2, 4
"""What is to be sent of a guild: the library's fields; what the callbacks say, if it differs; that and the staff in any case."""


@dataclass(frozen=True)
class Limits:
    """Seconds, counts and bytes. The defaults suit every bot; tests have others."""

    heartbeat_interval: float = 15.0
    flush_interval: float = 0.5
    """How long a change waits for others to share its request."""
    batch_lines: int = 500
    batch_bytes: int = 4 * 1024 * 1024
    marks: int = 20_000
    """Changes that wait to be sent; one more, and everything is sent whole instead."""
    lines: int = 10_000
    line_bytes: int = 1024 * 1024
    buffer_bytes: int = 16 * 1024 * 1024
    feedback: int = 1_000
    member_count_interval: float = 60.0
    callback_timeout: float = 15.0
    first_delay: float = 1.0
    longest_delay: float = 60.0
    longest_retry_after: float = 3600.0
    close_timeout: float = 5.0
    check_interval: float = 300.0
    slice: float = 0.005
    """How long a snapshot may work before the bot's loop gets its turn."""


@dataclass(frozen=True)
class Facts:
    """What only the bot knows of a guild."""

    grants: Mapping[str, tuple[str, ...]]
    setup: bool
    linked: bool

    @property
    def granting(self) -> frozenset[int]:
        return frozenset(int(role) for role in self.grants)


NOTHING = Facts({}, False, False)


@dataclass
class Line:
    text: bytes
    feedback: bool = False


class Retry(Exception):
    """The request has to be made again, later."""

    def __init__(self, reason: str, after: float | None = None) -> None:
        super().__init__(reason)
        self.after = after


def encode(value: Json) -> bytes:
    # Names may hold lone surrogates; escaped, they are at least JSON.
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode() + b"\n"


class Companion:
    """Reports one bot. Made by `attach`."""

    def __init__(
        self,
        bot: Any,
        transport: Transport,
        *,
        grants: GrantsCallback | None = None,
        setup: FlagCallback | None = None,
        linked: FlagCallback | None = None,
        subscriptions: ManyCallback | None = None,
        team: ManyCallback | None = None,
        limits: Limits | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self._bot = bot if isinstance(bot, Bot) else Bot(bot)
        self._transport = transport
        self._callbacks = {"grants": grants, "setup": setup, "linked": linked}
        self._subscriptions = subscriptions
        self._team = team
        self._limits = limits or Limits()
        self._clock: Clock = clock or SystemClock()
        self._random = rng or random.Random()

        self.instance = uuid.uuid4().hex
        self._started_at = self._clock.time()
        self._sequence = 1
        self._lines: deque[Line] = deque()
        self._lines_bytes = 0
        self._sent = 0
        """How many of the lines are in a request whose fate is unknown."""

        self._stale: dict[int, bool] = {}
        """The own shards that have been ready; True: to be sent whole, and nothing is worth marking until then."""
        self._shard_count = 0
        self._gone: dict[int, None] = {}
        self._guilds: dict[int, int] = {}
        self._members: dict[tuple[int, int], list[str] | None] = {}
        self._order: dict[tuple[str, Any], None] = {}
        """All marks, oldest first."""
        self._feedback: deque[bytes] = deque()
        self._facts: dict[int, Facts] = {}
        self._counted: dict[int, float] = {}
        self._counts_due: dict[int, float] = {}
        self._subscriptions_stale = self._team_stale = False
        self._refused: set[int] = set()
        """Guilds that the service found invalid: sent as unavailable until they change."""

        self._wake = asyncio.Event()
        self._full = asyncio.Event()
        self._closing = asyncio.Event()
        self._beaten = False
        self._check = False
        self._failing: dict[str, float] = {}
        """Since when the heartbeats, or the data, do not get through."""
        self._complained: set[str] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._closed = False
        self._turn = 0.0
        self._detach: Callable[[], None] = lambda: None

    # What a bot calls

    def changed(self, guild: Any = None) -> None:
        """Something that only the bot knows of this guild (an object or an id) has changed; without one: of any guild."""
        if guild is None:
            self._resync("the bot asked for it")
        else:
            self._mark_guild(_bot.identity(guild), BASE | ASK | WHOLE)

    def subscriptions_changed(self) -> None:
        """The callback `subscriptions` would now say something else."""
        if self._subscriptions is not None:
            self._subscriptions_stale = True
            self._wake.set()

    def team_changed(self) -> None:
        """The callback `team` would now say something else."""
        if self._team is not None:
            self._team_stale = True
            self._wake.set()

    def feedback(self, id: Any, feedback: str, rating: int, submitter: Any, timestamp: float | None = None) -> None:
        """Somebody has rated the bot. The same id again replaces; `submitter` is a user object, or a dict like in the feed."""
        self._add_feedback(
            lambda: {
                "type": "feedback",
                "id": str(id),
                "feedback": feedback,
                "rating": rating,
                "timestamp": int(self._clock.time() if timestamp is None else timestamp),
                "submitter": _bot.user(submitter),
            }
        )

    def feedback_gone(self, id: Any) -> None:
        """A rating was withdrawn."""
        self._add_feedback(lambda: {"type": "feedback_gone", "id": str(id)})

    async def close(self) -> None:
        """Sends what is left, for at most five seconds, and stops."""
        if self._closed:
            return
        self._closed = True
        self._detach()
        self._closing.set()
        self._wake.set()
        tasks, self._tasks = self._tasks, []
        try:
            if tasks:
                await within(self._clock, self._limits.close_timeout, asyncio.gather(*tasks, return_exceptions=True))
        except TimeoutError:
            log.info("closed before everything was sent; the next start sends it all")
        finally:
            for task in tasks:
                await finish(task)
            try:
                await self._transport.close()
            except Exception:
                log.debug("closing the connections", exc_info=True)

    # The library's events. They run in the bot's loop, never wait and never raise.

    def start(self) -> None:
        """Needs a running loop; more than once is once."""
        if not self._tasks and not self._closed:
            loop = asyncio.get_running_loop()
            self._tasks = [loop.create_task(self._push_forever()), loop.create_task(self._beat_forever())]
            if self._bot.is_ready():
                for shard in self._bot.own_shards():
                    self._ready(shard)

    def received(self, event: str, *args: Any) -> None:
        if self._closed:
            return
        try:
            self.start()
            getattr(self, f"_on_{event}")(*args)
        except Exception:
            self._complain(f"event {event}", "cannot make sense of the event %s", event)

    def _on_connect(self) -> None:
        pass

    def _on_ready(self) -> None:
        for shard in self._bot.own_shards():
            # An auto-sharded bot has told of each shard before, unless this came too late to hear it.
            if not self._bot.auto_sharded or shard not in self._stale:
                self._ready(shard)

    def _on_shard_ready(self, shard: int) -> None:
        self._ready(int(shard))

    def _on_guild_join(self, guild: Any) -> None:
        self._gone.pop(guild.id, None)
        self._mark_guild(guild.id, BASE | ASK | WHOLE)

    _on_guild_available = _on_guild_join

    def _on_guild_remove(self, guild: Any) -> None:
        self._facts.pop(guild.id, None)
        self._counted.pop(guild.id, None)
        self._counts_due.pop(guild.id, None)
        if self._heard(guild.id):
            self._gone[guild.id] = None
            self._guilds[guild.id] = 0
            self._mark(("guild", guild.id))

    def _on_guild_update(self, before: Any, after: Any) -> None:
        self._mark_guild(after.id, BASE)

    def _on_guild_role_create(self, role: Any) -> None:
        # Many bots derive grants from the roles' permissions or names.
        self._mark_guild(role.guild.id, ASK)

    def _on_guild_role_update(self, before: Any, after: Any) -> None:
        self._mark_guild(after.guild.id, ASK)

    def _on_guild_role_delete(self, role: Any) -> None:
        known = self._facts.get(role.guild.id, NOTHING)
        self._mark_guild(role.guild.id, BASE | ASK | WHOLE if role.id in known.granting else ASK)

    def _on_member_join(self, member: Any) -> None:
        self._mark_member(member.guild.id, member.id, self._roles(member))
        self._mark_count(member.guild.id)

    def _on_member_update(self, before: Any, after: Any) -> None:
        guild = after.guild.id
        granting = self._facts.get(guild, NOTHING).granting - {guild}
        old, new = _bot.role_ids(before, guild), _bot.role_ids(after, guild)
        if old & granting != new & granting:
            self._mark_member(guild, after.id, self._roles(after))

    def _on_member_remove(self, member: Any) -> None:
        self._left(member.guild.id, member.id)

    def _on_raw_member_remove(self, payload: Any) -> None:
        self._left(int(payload.guild_id), payload.user.id)

    def _left(self, guild: int, user: int) -> None:
        own = getattr(getattr(self._bot.raw, "user", None), "id", None)
        if user != own:
            self._mark_member(guild, user, None)
            self._mark_count(guild)

    @staticmethod
    def _roles(member: Any) -> list[str]:
        return [str(role) for role in sorted(_bot.role_ids(member, member.guild.id))][: _bot.ROLES]

    # Marks

    def _ready(self, shard: int) -> None:
        if self._shard_count != self._bot.shard_count:
            # Another split of the guilds: what was known of shards is of no use.
            self._stale.clear()
            self._shard_count = self._bot.shard_count
        self._stale[shard] = True
        if shard == 0:
            self._subscriptions_stale = self._subscriptions is not None
            self._team_stale = self._team is not None
        self._wake.set()

    def _heard(self, guild: int) -> bool:
        """Whether a change of this guild is worth a mark: not if its shard will be sent whole anyway."""
        return self._stale.get(self._bot.shard_of(guild), True) is False

    def _mark_guild(self, guild: int, what: int) -> None:
        if self._heard(guild):
            self._guilds[guild] = self._guilds.get(guild, 0) | what
            self._mark(("guild", guild))

    def _mark_member(self, guild: int, user: int, roles: list[str] | None) -> None:
        if self._heard(guild):
            self._members[guild, user] = roles
            self._mark(("member", (guild, user)))

    def _mark_count(self, guild: int) -> None:
        if not self._heard(guild) or guild in self._counts_due:
            return
        due = self._counted.get(guild, float("-inf")) + self._limits.member_count_interval
        if due <= self._clock.monotonic():
            self._mark_guild(guild, BASE)
        else:
            self._counts_due[guild] = due
            self._wake.set()

    def _mark(self, mark: tuple[str, Any]) -> None:
        # To the end: a member who came back after the guild did belongs after it.
        self._order.pop(mark, None)
        self._order[mark] = None
        if len(self._order) > self._limits.marks:
            self._resync("too many changes wait")
        elif len(self._order) >= self._limits.batch_lines:
            self._full.set()
        self._wake.set()

    def _add_feedback(self, make: Callable[[], Json]) -> None:
        try:
            line = encode(make())
            if len(line) > self._limits.line_bytes:
                raise ValueError("it is too long")
        except Exception as error:
            log.warning("a feedback entry cannot be sent: %s", error)
            return
        if len(self._feedback) >= self._limits.feedback:
            self._feedback.popleft()
            self._complain("feedback", "more feedback waits than is kept; the oldest entries are dropped", trace=False)
        self._feedback.append(line)
        self._wake.set()

    def _resync(self, why: str) -> None:
        """Forgets what waits; every own shard is sent whole."""
        log.debug("sending everything again: %s", why)
        self._forget_lines()
        for marks in (self._order, self._guilds, self._members, self._gone, self._counts_due):
            marks.clear()
        for shard in self._stale:
            self._stale[shard] = True
        self._check = False
        if 0 in self._stale:
            self._subscriptions_stale = self._subscriptions is not None
            self._team_stale = self._team is not None
        self._beaten = False
        self._wake.set()

    def _forget_lines(self) -> None:
        # Feedback is not part of a snapshot, so it goes back to its own queue.
        for line in reversed(self._lines):
            if line.feedback and len(self._feedback) < self._limits.feedback:
                self._feedback.appendleft(line.text)
        # Their numbers may have been used; those after them have not.
        self._sequence += self._sent
        self._lines.clear()
        self._lines_bytes = self._sent = 0

    def _complain(self, about: str, message: str, *args: Any, trace: bool = True) -> None:
        """Logs the first of a kind; a bot's log is not to drown in ours."""
        if about not in self._complained:
            self._complained.add(about)
            log.warning(message, *args, exc_info=trace)

    # Talking to the service

    async def _request(self, method: str, path: str, body: Any, gzip: bool = False) -> Answer:
        what = "heartbeat" if path == "/bot/heartbeat" else "data"
        headers = {"Feed-Instance": self.instance, "Feed-Sequence": str(self._sequence)}
        if body is not None:
            headers["Content-Type"] = "application/x-ndjson" if gzip or path == "/bot/events" else "application/json"
        if gzip:
            headers["Content-Encoding"] = "gzip"
        try:
            answer = await self._transport.request(method, path, headers, body)
        except TransportError as error:
            raise self._failed(what, str(error)) from error
        if answer.status < 300 or answer.status == 409:
            self._reached(what)
        elif answer.status != 422:
            raise self._failed(what, f"{answer.status} {answer.error} {answer.message}".strip(), answer)
        return answer

    def _failed(self, what: str, reason: str, answer: Answer | None = None) -> Retry:
        busy = answer is not None and answer.status == 429
        if not busy and what not in self._failing:
            quiet = bool(self._failing)
            self._failing[what] = self._clock.monotonic()
            if quiet:
                log.debug("the service cannot be reached: %s", reason)
            elif answer is not None and answer.status == 401:
                log.error("the service refuses the bot key (COMPANION_BOT_KEY): %s; trying on", reason)
            else:
                log.warning("the service cannot be reached: %s; trying on, the bot is not affected", reason)
        return Retry(reason, answer.retry_after if answer is not None else None)

    def _reached(self, what: str) -> None:
        since = self._failing.pop(what, None)
        if since is not None and not self._failing:
            log.info("the service is back after %.0f s", self._clock.monotonic() - since)
            # It may have come back with older data, or none.
            self._check = True
            self._wake.set()

    def _delay(self, failures: int, retry: Retry) -> float:
        limits = self._limits
        longest: float = min(limits.longest_delay, limits.first_delay * 2 ** min(failures - 1, 16))
        delay = longest * self._random.uniform(0.5, 1.0)
        return max(delay, min(retry.after or 0.0, limits.longest_retry_after))

    async def _beat(self) -> None:
        body = {
            "instance": self.instance,
            "started_at": self._started_at,
            "memory": _bot.memory(),
            "library": self._bot.library(),
            "shard_count": self._bot.shard_count,
            "shards": self._bot.health(),
        }
        answer = await self._request("PUT", "/bot/heartbeat", json.dumps(body, allow_nan=False).encode())
        if answer.status >= 300:
            self._complain("heartbeat", "the heartbeat was refused: %s", answer.data.get("reason"), trace=False)
        self._beaten = True

    async def _beat_forever(self) -> None:
        failures = 0
        since_check = 0.0
        while not self._closing.is_set():
            delay = self._limits.heartbeat_interval
            # Before the shards are known there is nothing to say.
            if self._stale:
                try:
                    await self._beat()
                    failures = 0
                    since_check += delay
                    if since_check >= self._limits.check_interval:
                        since_check = 0.0
                        self._check = True
                        self._wake.set()
                except Retry as retry:
                    failures += 1
                    delay = max(delay, self._delay(failures, retry))
                except Exception:
                    self._complain("beat", "a heartbeat could not be made")
            else:
                delay = min(delay, 1.0)
            await wait(self._clock, self._closing, delay)

    async def _push_forever(self) -> None:
        failures = 0
        while True:
            last = self._closing.is_set()
            self._wake.clear()
            try:
                await self._push()
                failures = 0
                if last:
                    return
                await wait(self._clock, self._wake, self._idle())
                self._full.clear()
                if len(self._order) < self._limits.batch_lines and not self._closing.is_set():
                    await self._patience()
                continue
            except Retry as retry:
                failures += 1
                delay = self._delay(failures, retry)
            except Exception:
                # A bug of ours, or an object that the library changed: start over, slowly.
                failures += 1
                self._complain("push", "cannot send the bot's data; trying on")
                self._resync("an error")
                delay = self._delay(failures, Retry("an error"))
            if last:
                return
            await wait(self._clock, self._closing, delay)

    async def _patience(self) -> None:
        either = asyncio.ensure_future(self._full.wait()), asyncio.ensure_future(self._closing.wait())
        timer = asyncio.ensure_future(self._clock.sleep(self._limits.flush_interval))
        try:
            await asyncio.wait({*either, timer}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (*either, timer):
                await finish(task)

    def _idle(self) -> float:
        due = min(self._counts_due.values(), default=None)
        return 3600.0 if due is None else max(0.0, due - self._clock.monotonic())

    async def _push(self) -> None:
        """Until there is nothing left to say."""
        while True:
            self._turn = self._clock.monotonic()
            if not self._stale:
                return  # which shards are ours is not known yet
            if not self._beaten:
                # Who owns a shard depends on when its process started, and that is in the heartbeat.
                await self._beat()
            if self._sent:
                await self._send_lines()
            elif self._check:
                await self._check_state()
            elif any(self._stale.values()):
                await self._send_shard(min(shard for shard, stale in self._stale.items() if stale))
            elif self._subscriptions_stale:
                await self._send_subscriptions()
            else:
                await self._make_lines()
                if not self._lines:
                    return
                await self._send_lines()

    async def _check_state(self) -> None:
        self._check = False
        try:
            answer = await self._transport.request("GET", "/bot/state", {}, None)
        except TransportError:
            return  # what follows will notice, too, and check again
        if answer.status != 200:
            return
        known = next(
            (entry for entry in answer.data.get("instances", []) if entry.get("instance") == self.instance), None
        )
        if known is None or int(known.get("next", 0)) < self._sequence:
            # Nothing sent yet is not a loss.
            if self._sequence > 1 or False in self._stale.values():
                self._resync("the service has lost something")
        elif int(known["next"]) > self._sequence + len(self._lines):
            self._overtaken(answer)

    def _overtaken(self, answer: Answer) -> None:
        self._resync(answer.error or "the numbering differs")
        self._sequence = max(self._sequence, int(answer.data.get("next") or 1))

    # Snapshots

    async def _breathe(self) -> None:
        """Lets the bot run, if this has worked for a slice of time."""
        now = self._clock.monotonic()
        if now - self._turn >= self._limits.slice:
            await asyncio.sleep(0)
            self._turn = self._clock.monotonic()

    async def _send_shard(self, shard: int) -> None:
        count = self._bot.shard_count
        # From here on changes are marked: they follow the snapshot.
        self._stale[shard] = False
        sent = array("Q")
        try:
            lines = self._guild_lines(shard, count, sent)
            answer = await self._request("PUT", f"/bot/shards/{count}/{shard}/guilds", packed(lines), gzip=True)
        except BaseException:
            if shard in self._stale:
                self._stale[shard] = True
            raise
        if answer.status == 422:
            self._stale[shard] = True
            line = int(answer.data.get("line") or 0)
            if not 1 <= line <= len(sent) or sent[line - 1] in self._refused:
                raise self._failed("data", f"the snapshot was refused: {answer.data.get('reason')}", answer)
            self._refused.add(sent[line - 1])
            log.warning("guild %s was refused and is left as it was: %s", sent[line - 1], answer.data.get("reason"))
        elif answer.status == 409:
            self._overtaken(answer)
        else:
            self._note_ignored(answer)

    async def _guild_lines(self, shard: int, count: int, sent: array[int]) -> AsyncIterator[bytes]:
        number = 0
        for guild in self._bot.guilds():
            if (guild.id >> 22) % count != shard:
                continue
            line = None
            if not getattr(guild, "unavailable", False) and guild.id not in self._refused:
                try:
                    line = await self._guild_line(guild)
                except Exception:
                    self._complain("guild", "a guild cannot be described; it is left as it was")
            if line is None:
                line = encode({"id": str(guild.id), "unavailable": True})
            number += 1
            sent.append(guild.id)
            yield line
            await self._breathe()
        yield encode({"end": number})

    async def _guild_line(self, guild: Any) -> bytes | None:
        """The whole guild, or none if it cannot be known."""
        facts = await self._ask(guild)
        if facts is None:
            return None
        self._counted[guild.id] = self._clock.monotonic()
        line = encode({**_bot.base(guild), **await self._whole(guild, facts)})
        if len(line) > self._limits.line_bytes:
            self._complain("long", "guild %s is too long to be sent", guild.id, trace=False)
            return None
        return line

    async def _whole(self, guild: Any, facts: Facts) -> Json:
        staff: dict[str, list[str]] = {}
        for found in _bot.staff(guild, facts.granting):
            if found is None:
                await self._breathe()
            elif len(staff) < _bot.STAFF:
                staff[found[0]] = found[1]
            else:
                self._complain("staff", "guild %s has too much staff; some is not sent", guild.id, trace=False)
                break
        grants = {role: list(keys) for role, keys in facts.grants.items()}
        return {"setup": facts.setup, "linked": facts.linked, "grants": grants, "staff": staff}

    async def _ask(self, guild: Any) -> Facts | None:
        """What the callbacks say; what they last said, if they fail now."""
        if not any(self._callbacks.values()):
            return NOTHING
        try:
            grants = await self._call("grants", guild) or {}
            facts = Facts(
                {
                    str(_bot.identity(role)): tuple(str(key) for key in keys)
                    for role, keys in list(grants.items())[: _bot.ROLES]
                },
                bool(await self._call("setup", guild)),
                bool(await self._call("linked", guild)),
            )
        except Exception:
            self._complain("callback", "a callback failed for guild %s; its last answer is used", guild.id)
            known = self._facts.get(guild.id)
            if known is None:
                # Without one the guild stays as the service has it; ask again later.
                self._counts_due[guild.id] = self._clock.monotonic() + self._limits.member_count_interval
            return known
        self._facts[guild.id] = facts
        return facts

    async def _call(self, name: str, guild: Any) -> Any:
        callback = self._callbacks[name]
        return None if callback is None else await self._result(callback(guild))

    async def _result(self, value: Any) -> Any:
        if inspect.isawaitable(value):
            return await within(self._clock, self._limits.callback_timeout, value)
        return value

    async def _send_subscriptions(self) -> None:
        self._subscriptions_stale = False
        try:
            lines = [encode(subscription_line(entry)) async for entry in self._many(self._subscriptions)]
        except Exception:
            # The service keeps the last ones.
            self._complain("subscriptions", "the callback `subscriptions` failed; nothing is sent")
            return
        while True:

            async def body(lines: list[bytes] = lines) -> AsyncIterator[bytes]:
                for line in lines:
                    yield line
                    await self._breathe()
                yield encode({"end": len(lines)})

            try:
                answer = await self._request("PUT", "/bot/subscriptions", packed(body()), gzip=True)
            except BaseException:
                self._subscriptions_stale = True
                raise
            if answer.status == 422:
                line = int(answer.data.get("line") or 0)
                if not 1 <= line <= len(lines):
                    self._subscriptions_stale = True
                    raise self._failed("data", f"the subscriptions were refused: {answer.data.get('reason')}", answer)
                log.warning("a subscription was refused and is left out: %s", answer.data.get("reason"))
                del lines[line - 1]
                continue
            if answer.status == 409:
                self._overtaken(answer)
            else:
                self._note_ignored(answer)
            return

    async def _many(self, callback: ManyCallback | None) -> AsyncIterator[Any]:
        """What a callback gives: a list, something to iterate, or to iterate asynchronously, at once or awaited."""
        found = await self._result(callback()) if callback is not None else ()
        if hasattr(found, "__aiter__"):
            async for entry in found:
                yield entry
        else:
            for entry in found or ():
                yield entry
                await self._breathe()

    # Events

    def _put(self, line: bytes, feedback: bool = False) -> None:
        if len(line) > self._limits.line_bytes:
            self._complain("long", "a change is too long to be sent", trace=False)
            return
        self._lines.append(Line(line, feedback))
        self._lines_bytes += len(line)

    async def _make_lines(self) -> None:
        """Turns marks into lines, at most a batch of them."""
        now = self._clock.monotonic()
        for guild in [guild for guild, due in self._counts_due.items() if due <= now]:
            del self._counts_due[guild]
            self._mark_guild(guild, BASE)
        if self._team_stale:
            self._team_stale = False
            try:
                members = [dict(entry) async for entry in self._many(self._team)]
                self._put(encode({"type": "team", "members": members}))
            except Exception:
                self._complain("team", "the callback `team` failed; nothing is sent")
        limits = self._limits
        while self._order and len(self._lines) < limits.batch_lines and self._lines_bytes < limits.batch_bytes:
            kind, what = mark = next(iter(self._order))
            del self._order[mark]
            try:
                if kind == "guild":
                    await self._guild_event(what)
                else:
                    self._member_event(*what)
            except Exception:
                self._complain("event", "a change cannot be described; it is skipped")
            await self._breathe()
        while self._feedback and len(self._lines) < limits.batch_lines and self._lines_bytes < limits.batch_bytes:
            self._put(self._feedback.popleft(), feedback=True)

    async def _guild_event(self, identity: int) -> None:
        what = self._guilds.pop(identity, 0)
        if identity in self._gone:
            del self._gone[identity]
            self._put(encode({"type": "guild_gone", "id": str(identity)}))
            if not what:
                return
        guild = self._bot.guild(identity)
        if guild is None or getattr(guild, "unavailable", False):
            # An outage, or not there yet: `guild_available` or a snapshot will tell.
            return
        self._refused.discard(identity)
        known = self._facts.get(identity) if any(self._callbacks.values()) else NOTHING
        facts = known if known is not None and not what & ASK else await self._ask(guild)
        if facts is None:
            return
        if facts != known:
            what |= BASE | WHOLE
        if not what & (BASE | WHOLE):
            return
        line = {"type": "guild", **_bot.base(guild), "setup": facts.setup, "linked": facts.linked}
        if what & WHOLE:
            line.update(await self._whole(guild, facts))
        self._counted[identity] = self._clock.monotonic()
        self._counts_due.pop(identity, None)
        self._put(encode(line))

    def _member_event(self, guild: int, user: int) -> None:
        if (guild, user) not in self._members:
            return
        roles = self._members.pop((guild, user))
        line: Json = {"type": "member_gone", "guild": str(guild), "user": str(user)}
        if roles is not None:
            line = {**line, "type": "member", "roles": roles}
        self._put(encode(line))

    async def _send_lines(self) -> None:
        """The first lines, as one request. They keep their numbers until they are acknowledged."""
        size = count = 0
        for line in self._lines:
            if count and (count >= self._limits.batch_lines or size + len(line.text) > self._limits.batch_bytes):
                break
            size, count = size + len(line.text), count + 1
        count = max(count, self._sent)
        batch = [line.text for line, _ in zip(self._lines, range(count))]
        self._sent = count
        first = self._sequence
        answer = await self._request("POST", "/bot/events", b"".join(batch))
        if self._sequence != first or self._sent != count:
            # A resync has thrown the batch away meanwhile.
            return
        if answer.status == 422:
            self._sent = 0
            self._drop_line(int(answer.data.get("line") or 0), count, answer)
        elif answer.status == 409:
            self._overtaken(answer)
        else:
            self._sent = 0
            self._sequence += count
            for _ in range(count):
                self._lines_bytes -= len(self._lines.popleft().text)
            self._note_ignored(answer)

    def _drop_line(self, number: int, count: int, answer: Answer) -> None:
        if not 1 <= number <= count:
            raise self._failed("data", f"the changes were refused: {answer.data.get('reason')}", answer)
        line = self._lines[number - 1]
        log.warning("a change was refused and is left out: %s", answer.data.get("reason"))
        self._lines_bytes -= len(line.text)
        del self._lines[number - 1]

    def _note_ignored(self, answer: Answer) -> None:
        if answer.data.get("ignored"):
            log.debug("the service ignored %s: %s", answer.data["ignored"], answer.data.get("reasons"))


def subscription_line(entry: Any) -> Json:
    """A dict like in the feed, or an object with those attributes."""
    names = ("userid", "slots", "guilds", "active_until")
    given = entry if isinstance(entry, Mapping) else {name: getattr(entry, name) for name in names if hasattr(entry, name)}
    line: Json = {
        "userid": str(_bot.identity(given["userid"])),
        "slots": int(given.get("slots") or 0),
        "guilds": [str(_bot.identity(guild)) for guild in given.get("guilds") or ()],
    }
    # Left out it stays left out, and the service refuses the line: a mistake must not make premium that never ends.
    if "active_until" in given:
        until: Any = given["active_until"]
        if isinstance(until, datetime):
            until = (until if until.tzinfo else until.replace(tzinfo=timezone.utc)).timestamp()
        line["active_until"] = until
    return line


async def packed(lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The lines as gzip, in pieces of about 64 KiB, so that memory stays flat."""
    squeeze = zlib.compressobj(5, zlib.DEFLATED, 31)
    waiting = 0
    async for line in lines:
        piece = squeeze.compress(line)
        waiting += len(line)
        if waiting >= 256 * 1024:
            # The service gives up on a body that stands still.
            piece += squeeze.flush(zlib.Z_SYNC_FLUSH)
            waiting = 0
        if piece:
            yield piece
    yield squeeze.flush()


def make(bot: Any, url: str, key: str, **options: Any) -> Companion:
    return Companion(bot, HttpTransport(url, key), **options)
