"""The sender: the numbering, one request at a time, retries, resync."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from . import _lines
from ._callbacks import Callbacks
from ._changes import Changes
from ._feedback import Entry, Feedback
from ._guilds import Guilds
from ._heartbeat import Heartbeat
from ._limits import Limits
from ._marks import Marks
from ._snapshots import Refused, Shards, Snapshot
from ._status import Status
from ._transport import Answer, Channel, Failure, retry_delay


@dataclass
class Line:
    text: bytes
    entry: Entry | None = None
    """The feedback it contains."""
    team: bool = False


SubscriptionList = tuple[list[bytes], list[bytes], int]
"""The callback's answer, what is left of it, and how often that was refused."""


class Wait(Exception):
    """Nothing failed, but continuing immediately would be pointless: waits as after this many failures."""

    def __init__(self, failures: int | None = None) -> None:
        super().__init__()
        self.failures = failures


class Sender:
    def __init__(
        self,
        channel: Channel,
        heartbeat: Heartbeat,
        shards: Shards,
        marks: Marks,
        guilds: Guilds,
        callbacks: Callbacks,
        feedback: Feedback,
        limits: Limits,
        status: Status,
        random: Callable[[], float],
    ) -> None:
        self._channel = channel
        self._heartbeat = heartbeat
        self._shards = shards
        self._marks = marks
        self._guilds = guilds
        self._changes = Changes(marks, shards, guilds, callbacks)
        self._callbacks = callbacks
        self._feedback = feedback
        self._limits = limits
        self._status = status
        self._random = random

        self._next: int = 1
        self._after: int | None = 1
        """What the service expects at least, if it has lost nothing. `None` after it has asked for a resync, until it has a snapshot."""
        self._batch: list[Line] = []
        """Numbered lines, starting at `next`, whose outcome isn't known."""
        self._doubtful = False
        self._subscriptions_stale = self._team_stale = False
        self._subscriptions_sent: list[bytes] | None = None
        self._subscriptions_refused: set[bytes] = set()
        self._subscriptions_given_up: list[bytes] | None = None
        """A callback's answer that was refused too often. It is not sent again."""
        self._subscriptions_retry: SubscriptionList | None = None
        self._changes_first = False
        """Changes go between two tries."""
        self._team_sent: bytes | None = None
        self._refused = Refused()
        self._resyncs_in_a_row = 0
        self._resyncs = 0
        self._busy = False
        self._connected = False
        self.when_connected: Callable[[], None] = lambda: None
        """Called when all of this process's shards have been sent for the first time."""
        self.when_refreshed: Callable[[], None] = lambda: None

        self._since: float | None = None
        """When the first waiting change arrived."""
        self._wake = asyncio.Event()
        self._closing = asyncio.Event()
        self._timers: set[asyncio.TimerHandle] = set()

    # What the others report

    @property
    def refused(self) -> Refused:
        return self._refused

    def ready(self, shard: int) -> None:
        """A shard has to be sent as a whole."""
        self._shards.ready(shard)
        if shard == 0:
            self._forget_sent()
        self._wake.set()

    def change(self) -> None:
        """A mark or feedback was added."""
        if self._marks.is_full:
            self._status.warn("too many changes are waiting; all guilds are sent again instead", once="changes")
            self._marks.clear()
            self.resync()
            return
        if self._since is None:
            self._since = asyncio.get_running_loop().time()
            self._wake.set()
        elif len(self._marks) >= self._limits.batch_lines:
            self._wake.set()

    def later(self) -> None:
        """Something became due at some time."""
        self._wake.set()

    def subscriptions_changed(self) -> None:
        if self._callbacks.has_subscriptions and self._may_send_lists():
            self._subscriptions_stale = True
            self._wake.set()

    def team_changed(self) -> None:
        if self._callbacks.has_team and self._may_send_lists():
            self._team_stale = True
            self._wake.set()

    def _may_send_lists(self) -> bool:
        """Subscriptions and team come from the process with shard 0."""
        return self._shards.is_ready(0) and not self._shards.belongs_to_another(0)

    def check_replaced(self) -> None:
        """Asks whether the process that owns some of the shards is still there."""
        if self._shards.any_replaced:
            self._doubtful = True
            self._wake.set()

    def service_is_back(self) -> None:
        """It may have come back with older data, or none."""
        self._doubtful = True
        self._wake.set()

    def resync(self) -> None:
        """Drops what is waiting and sends every shard as a whole. The batch stays, because its numbers may have been used, and so does feedback."""
        self._status.counters["resyncs"] += 1
        self._resyncs += 1
        self._doubtful = False
        self._marks.drop(lambda guild: True)
        self._shards.make_stale()
        if self._shards.is_ready(0):
            self._forget_sent()
        self._heartbeat.forget()
        self._wake.set()

    def _forget_sent(self) -> None:
        self._subscriptions_sent = self._team_sent = None
        self.subscriptions_changed()
        self.team_changed()

    # What is waiting

    @property
    def waiting_changes(self) -> int:
        return self._marks.waiting

    @property
    def waiting_batch(self) -> int:
        return len(self._batch)

    def entries_in_batch(self) -> list[Entry]:
        return [line.entry for line in self._batch if line.entry is not None]

    def has_work(self) -> bool:
        """There is something to send, now or after `gather_time`."""
        return bool(
            self._batch
            or self._marks
            or self._feedback
            or self._subscriptions_wait
            or self._team_stale
            or self._shards.lowest_stale() is not None
        )

    @property
    def _subscriptions_wait(self) -> bool:
        return self._subscriptions_stale or self._subscriptions_retry is not None

    def is_synced(self) -> bool:
        return not self._busy and not self.has_work() and self._shards.all_sent()

    # The loop

    def close(self) -> None:
        """Makes `run` send what is waiting, and return."""
        self._closing.set()
        self._wake.set()
        for timer in self._timers:
            timer.cancel()

    async def run(self) -> None:
        failures = 0
        while True:
            last_try = self._closing.is_set()
            try:
                self._busy = True
                if await self._step():
                    failures = 0
                    continue
                self._busy = False
                if last_try:
                    return
                if self.is_synced():
                    self._status.emit("synced")
                await self._until_work()
                continue
            except Failure as failure:
                failures += 1
                delay = retry_delay(self._limits, self._random, failures, failure)
            except Wait as wait:
                failures += 1
                delay = retry_delay(self._limits, self._random, wait.failures or failures)
            except Exception as error:
                failures += 1
                delay = retry_delay(self._limits, self._random, failures)
                self._status.fault("sender", error)
                self.resync()
            if last_try:
                return
            await self._pause(delay)

    async def _pause(self, seconds: float) -> None:
        closing = asyncio.ensure_future(self._closing.wait())
        try:
            await asyncio.wait({closing}, timeout=seconds)
        finally:
            closing.cancel()

    async def _until_work(self) -> None:
        """Waits until there is something to send and `gather_time` has passed."""
        loop = asyncio.get_running_loop()
        self._since = None
        if self.has_work():
            return
        while not self._closing.is_set():
            self._wake.clear()
            if self._is_urgent():
                return
            due = self._marks.next_due()
            if self._since is not None:
                gathered = self._since + self._limits.gather_time
                due = gathered if due is None else min(due, gathered)
            if due is not None and due <= loop.time():
                return
            waking = asyncio.ensure_future(self._wake.wait())
            try:
                await asyncio.wait({waking}, timeout=None if due is None else due - loop.time())
            finally:
                waking.cancel()

    def _is_urgent(self) -> bool:
        return bool(
            self._subscriptions_stale
            or self._team_stale
            or self._doubtful
            or self._shards.lowest_stale() is not None
            or len(self._marks) >= self._limits.batch_lines
        )

    async def _step(self) -> bool:
        """Does the first thing on the list. False if there is nothing to do."""
        stale = self._shards.lowest_stale()
        if self._batch:
            await self._send_batch()
        elif (stale is not None or self._subscriptions_wait) and not self._heartbeat.is_introduced:
            await self._heartbeat.beat()
        elif stale is not None:
            await self._send_snapshot(stale)
        elif self._subscriptions_wait and not self._changes_first:
            await self._send_subscriptions()
        elif self._doubtful:
            await self._probe()
        else:
            self._changes_first = False
            return await self._make_batch() or self._subscriptions_wait
        return True

    # Snapshots

    async def _send_snapshot(self, shard: int) -> None:
        # Above `next`: a service that loses it finds a gap in whatever comes after it.
        number = self._next + 1
        self._shards.begin(shard)
        self._marks.begin(self._shards.is_of(shard))
        snapshot = Snapshot(
            shard, self._shards, self._refused, self._guilds.snapshot_line, self._callbacks.at_once, self._limits.slice
        )
        acknowledged = False
        try:
            answer = await self._channel.send(
                "PUT",
                f"/bot/shards/{self._shards.count}/{shard}/guilds",
                snapshot.lines(),
                number,
                self._after,
                lambda answer: answer.status == 409 or bool(answer.refused(len(snapshot.sent))),
            )
            acknowledged = answer.status == 200
        except Failure:
            self._next = number  # it may still arrive, or have arrived
            raise
        finally:
            self._shards.end(shard, sent=acknowledged)
        if answer.status == 409:
            self._overtaken(number, answer)
        elif answer.status == 422:
            for line, reason in answer.refused(len(snapshot.sent)).items():
                self._refuse_guild(snapshot.sent[line], reason)
        else:
            self._next = self._after = number
            for mark in snapshot.covered:
                self._marks.discard(mark)
            self._status.counters["snapshots"] += 1
            self._status.counters["lines_sent"] += len(snapshot.sent)
            self._note_lost(answer)
            if not self._connected and self._shards.all_sent():
                self._connected = True
                self.when_connected()

    def _overtaken(self, number: int, answer: Answer) -> None:
        if answer.is_gap:
            self._gap(number, answer)
            return
        moved = answer.next > self._next
        self._next, self._after = max(self._next, answer.next), answer.next
        self._heartbeat.forget()
        if not moved:
            raise Wait

    def _refuse_guild(self, guild: int, reason: str) -> None:
        self._status.counters["lines_refused"] += 1
        if self._refused.add(guild):
            self._status.warn(f"the service refuses guild {guild}, which stays as it was until it changes: {reason}")

    # Subscriptions

    async def _send_subscriptions(self) -> None:
        retry, self._subscriptions_retry = self._subscriptions_retry, None
        if self._subscriptions_stale or retry is None:
            retry = await self._ask_subscriptions()
            if retry is None:
                return
        lines, sent, tries = retry
        asked, number = self._resyncs, self._next + 1
        try:
            answer = await self._channel.send(
                "PUT",
                "/bot/subscriptions",
                [*sent, _lines.encode({"end": len(sent)})],
                number,
                self._after,
                lambda answer: answer.status == 409 or bool(answer.refused(len(sent))),
            )
        except Failure:
            # It may still arrive, or have arrived.
            self._next, self._subscriptions_sent, self._subscriptions_stale = number, None, True
            raise
        if answer.status == 409:
            self._subscriptions_stale = True
            self._overtaken(number, answer)
        elif answer.status == 422:
            refused = answer.refused(len(sent))
            for line, reason in refused.items():
                self._subscriptions_refused.add(sent[line])
                self._refuse_line(sent[line], reason, once=("subscription", reason))
            left = [text for line, text in enumerate(sent) if line not in refused]
            if tries + 1 < self._limits.subscription_tries:
                self._subscriptions_retry, self._changes_first = (lines, left, tries + 1), True
            else:
                self._give_up_subscriptions(lines)
        else:
            self._next = self._after = number
            self._status.counters["lines_sent"] += len(sent)
            if asked == self._resyncs:
                self._subscriptions_sent = sent

    async def _ask_subscriptions(self) -> SubscriptionList | None:
        """The callback's answer. `None` if there is nothing to send."""
        self._subscriptions_stale = False
        asked = self._resyncs
        lines = await self._callbacks.subscriptions()
        if lines is None:
            self._later(self.subscriptions_changed)
            return None
        if lines == self._subscriptions_given_up:
            return None
        self._subscriptions_given_up = None
        self._subscriptions_refused.intersection_update(lines)
        sent = [line for line in lines if line not in self._subscriptions_refused]
        return None if sent == self._subscriptions_sent or asked != self._resyncs else (lines, sent, 0)

    def _give_up_subscriptions(self, lines: list[bytes]) -> None:
        self._subscriptions_given_up = lines
        message = (
            f"subscriptions are still refused after {self._limits.subscription_tries} tries; the service keeps what it has, "
            "and none are sent until the callback `subscriptions` returns something else"
        )
        self._status.warn(message, once="refused subscriptions")

    def _refuse_line(self, line: bytes, reason: str, once: Hashable = None) -> None:
        self._status.counters["lines_refused"] += 1
        self._status.warn(f"the service refuses {_lines.about(line)}, which is left out: {reason}", once=once)

    def _later(self, again: Callable[[], None]) -> None:
        """A failed callback is called again."""

        def ring() -> None:
            self._timers.discard(timer)
            again()

        timer = asyncio.get_running_loop().call_later(self._limits.callback_retry, ring)
        self._timers.add(timer)

    # Events

    async def _probe(self) -> None:
        """Sends an events request without lines: the response says whether the service still has everything."""
        answer = await self._channel.send("POST", "/bot/events", [], self._next, handles=lambda answer: answer.status == 409)
        self._doubtful = False
        if answer.status == 409:
            self._gap(self._next, answer)
        else:
            self._resyncs_in_a_row = 0
            self._note_lost(answer)

    def _note_lost(self, answer: Answer) -> None:
        """Shards of this process may belong to one that started later, or be free again after that."""
        count = self._shards.count
        for shard in answer.shards("replaced", count):
            self._shards.replaced(shard)
            self._marks.drop(self._shards.is_of(shard))
            if shard == 0:
                self._subscriptions_stale = self._team_stale = False
                self._subscriptions_retry = None
        for shard in answer.shards("free", count):
            if self._shards.free(shard) and shard == 0:
                self._forget_sent()

    def _gap(self, after: int, answer: Answer) -> None:
        """The service lacks events or a snapshot. The numbers up to `after` may have been used."""
        if self._shards.any_ready:
            self._next, self._after = max(after, answer.next), None
        else:
            self._next = self._after = answer.next
        self.resync()
        self._resyncs_in_a_row += 1
        if self._resyncs_in_a_row > 1:
            raise Wait(self._resyncs_in_a_row - 1)

    async def _make_batch(self) -> bool:
        """Makes a batch of what is waiting: the team, feedback, changes, due member counts. False if there is nothing."""
        team = await self._team_line()
        lines, size = self._limits.batch_lines, self._limits.batch_bytes
        if team is not None:
            lines, size = lines - 1, size - len(team)
        feedback, used = self._feedback.fitting(min(lines, self._limits.feedback_lines), size)
        changes = await self._changes.take(lines - feedback, size - used, bool(team or feedback))
        batch = [] if team is None else [Line(team, team=True)]
        batch += [Line(entry.line, entry) for entry in self._feedback.take(feedback)]
        self._batch = batch + [Line(change) for change in changes]
        return bool(self._batch)

    async def _team_line(self) -> bytes | None:
        if not self._team_stale:
            return None
        self._team_stale = False
        line = await self._callbacks.team()
        if line is None:
            self._later(self.team_changed)
        elif len(line) > self._limits.line_bytes:
            self._status.warn("a change is too long to be sent: the team", once="team")
        elif line != self._team_sent:
            return line
        return None

    async def _send_batch(self) -> None:
        batch = self._batch
        answer = await self._channel.send(
            "POST",
            "/bot/events",
            [line.text for line in batch],
            self._next,
            handles=lambda answer: answer.status in (409, 413, 422),
        )
        if answer.status == 409:
            self._batch = []
            self._feedback.put_back(line.entry for line in batch if line.entry is not None)
            self._gap(self._next + len(batch), answer)
        elif refused := answer.refused(len(batch)):
            for line in reversed(refused):
                self._drop(line, refused[line])
        elif answer.status in (413, 422):
            self._halve(answer)
        else:
            self._acknowledged(batch)
            self._note_lost(answer)

    def _acknowledged(self, batch: list[Line]) -> None:
        self._batch = []
        self._next = self._after = self._next + len(batch)
        self._resyncs_in_a_row = 0
        self._status.counters["lines_sent"] += len(batch)
        for line in batch:
            if line.entry is not None:
                self._feedback.delivered(line.entry)
            elif line.team:
                self._team_sent = line.text

    def _drop(self, index: int, reason: str) -> None:
        line = self._batch.pop(index)
        self._refuse_line(line.text, reason)
        if line.entry is not None:
            self._feedback.refused(line.entry, reason)
        elif line.team:
            # The service would refuse the same team again.
            self._team_sent = line.text

    def _halve(self, answer: Answer) -> None:
        """The batch is too large, or the service refused something in it without saying what."""
        if len(self._batch) == 1:
            self._drop(0, answer.reason if answer.status == 422 else f"status {answer.status}, {answer.reason}")
            return
        middle = len(self._batch) // 2
        self._batch, rest = self._batch[:middle], self._batch[middle:]
        self._feedback.put_back(line.entry for line in rest if line.entry is not None)
        self._team_stale = self._team_stale or any(line.team for line in rest)
        if any(line.entry is None and not line.team for line in rest):
            self.resync()

    # Refresh

    async def refresh(self) -> None:
        """Regularly checks whether the service still has everything, and what the callbacks say."""
        while True:
            await asyncio.sleep(self._limits.refresh_interval)
            self.service_is_back()
            self.subscriptions_changed()
            self.team_changed()
            self.when_refreshed()
