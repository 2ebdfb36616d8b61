"""The feed's rules: what the service holds, and how it answers. Nothing here knows of HTTP."""

from __future__ import annotations

import copy
import math
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from . import lines
from .lines import Fields, Json, Refused

EVENTS = 10_000
"""The most events of a request."""
SILENCE = 90.0
"""A process that was silent for this many seconds loses its shards to the next snapshot."""
REASONS = 20
BAD_LINES = 1_000
LOST_SHARDS = 1_000

MESSAGES = {
    "bot_key_invalid": (401, "Send a valid bot key as `Authorization: Bearer <key>`."),
    "feed_header_invalid": (400, "Send the `Feed-Instance` and `Feed-Sequence` headers, each once, and `Feed-After` at most once."),
    "not_found": (404, "There is nothing at this path."),
    "method_not_allowed": (405, "This path doesn't support this method."),
    "resync_required": (409, "Events before these are missing, or their shard has no snapshot. Send new snapshots."),
    "snapshot_outdated": (409, "This snapshot is out of date. Send a new one, with `next` as its sequence."),
    "body_too_large": (413, "Send at most 10,000 lines and 16 MiB at a time, and at most 1 MiB in a heartbeat."),
    "encoding_unsupported": (415, "Send the body uncompressed or with `Content-Encoding: gzip`."),
    "line_invalid": (422, "Some lines were rejected, and nothing was applied. See `lines`."),
    "snapshot_busy": (429, "The service is already receiving this snapshot, or four others."),
}


@dataclass
class Answer:
    status: int
    data: Json
    message: str = "OK"
    retry_after: str | None = None

    @classmethod
    def error(cls, code: str, retry_after: str | None = None, **more: Any) -> Answer:
        status, message = MESSAGES[code]
        return cls(status, {"error": code, "request_id": uuid.uuid4().hex[:16], **more}, message, retry_after)

    @classmethod
    def bad_lines(cls, bad: list[tuple[int, str]]) -> Answer:
        """Every bad line with its reason; the first one also by itself."""
        line, reason = bad[0]
        named = [{"line": line, "reason": reason} for line, reason in bad[:BAD_LINES]]
        return cls.error("line_invalid", line=line, reason=reason, lines=named)

    def envelope(self) -> Json:
        return {"code": self.status, "message": self.message, "data": self.data}


@dataclass(frozen=True)
class Shard:
    count: int
    id: int

    @property
    def name(self) -> Json:
        return {"shard_count": self.count, "shard_id": self.id}

    def covers(self, guild: str) -> bool:
        return (int(guild) >> 22) % self.count == self.id

    def overlaps(self, other: Shard) -> bool:
        common = math.gcd(self.count, other.count)
        return self.id % common == other.id % common


@dataclass
class Instance:
    """A start of a process of the bot."""

    name: str
    first_seen: float
    next: int = 1
    reported_start: float | None = None
    last_sign: float = 0.0
    has_sent_snapshot: bool = False
    own: set[Shard] = field(default_factory=set)
    """The shards that it has called its own, in a heartbeat or by a snapshot."""

    @property
    def started(self) -> float:
        return self.first_seen if self.reported_start is None else min(self.reported_start, self.first_seen)


@dataclass
class Commit:
    """The snapshot that was committed last for a shard."""

    number: int
    owner: Instance


class Feed:
    """What the service holds, and its answers to the bot's calls."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self.forget()

    def forget(self) -> None:
        """As after a restore from nothing."""
        self.instances: dict[str, Instance] = {}
        self.commits: dict[Shard, Commit] = {}
        self.guilds: dict[str, Json] = {}
        self.subscriptions: dict[str, Json] = {}
        self.feedback: dict[str, Json] = {}
        self.team: list[Json] = []
        self.heartbeats: dict[str, Json] = {}
        self._commit_number = 0

    def data(self) -> Json:
        """A copy of everything, for a test to compare with."""
        held = {name: getattr(self, name) for name in ("guilds", "subscriptions", "feedback", "team", "heartbeats")}
        return copy.deepcopy({**held, "next": {name: instance.next for name, instance in self.instances.items()}})

    def state(self) -> Json:
        now = self._now()
        instances = [
            {"instance": one.name, "key": "reference", "next": one.next, "started_at": one.reported_start, "heartbeat_age": None}
            for one in self.instances.values()
        ]
        shards = [
            {
                "shard_count": shard.count,
                "shard_id": shard.id,
                "instance": commit.owner.name,
                "key": "reference",
                "guilds": sum(shard.covers(guild) for guild in self.guilds),
            }
            for shard, commit in self.commits.items()
        ]
        for instance in instances:
            beat = self.heartbeats.get(str(instance["instance"]))
            instance["heartbeat_age"] = round((now - beat["at"]) * 1000) if beat else None
        sizes = {name: len(getattr(self, name)) for name in ("guilds", "subscriptions", "feedback", "team")}
        return {"instances": instances, "shards": shards, **sizes}

    def expect(self, instance: str, next: int) -> None:
        """As if events of this process had been applied up to this number."""
        self._instance(instance).next = next

    # The calls

    def heartbeat(self, body: bytes) -> Answer:
        try:
            beat = lines.heartbeat(body)
        except Refused as reason:
            return Answer.bad_lines([(1, str(reason))])
        instance = self._instance(beat["instance"])
        instance.reported_start = beat["started_at"]
        instance.own |= {Shard(beat["shard_count"], shard["id"]) for shard in beat["shards"]}
        if beat["leaving"]:
            instance.last_sign = self._now() - SILENCE
            self.heartbeats.pop(instance.name, None)
        else:
            self.heartbeats[instance.name] = {**beat, "at": self._now()}
        return Answer(200, {})

    def guilds_of(self, shard: Shard, name: str, sequence: int, body: bytes, after: int = 1) -> Answer:
        """A shard's snapshot."""
        ignored: list[str] = []

        def read(fields: Fields) -> Json:
            if fields.flag("unavailable"):
                line: Json = {"id": fields.id("id"), "unavailable": True}
            else:
                line = lines.guild(fields, ignored)
            if not shard.covers(line["id"]):
                home = (int(line["id"]) >> 22) % shard.count
                reason = f"`id` belongs to shard {home} of {shard.count}, not to this one."
                if not line.get("unavailable"):
                    raise Refused(reason)
                ignored.append(reason)
            return line

        found = self._snapshot_lines(body, "id", read)
        if isinstance(found, Answer):
            return found
        sender = self._instance(name)
        sender.has_sent_snapshot = True
        sender.own.add(shard)
        refused = self._out_of_order(sender, sequence, after)
        if refused is not None:
            return refused
        sender.next = sequence
        owner = self._later_owner(shard, sender)
        if owner is not None:
            answer = self._taken(0, len(found), sequence, [overruled(len(found), owner)])
            answer.data["replaced"] = [shard.name]
            return answer
        self._replace(shard, found)
        self._commit(shard, sender)
        return self._taken(len(found), len(ignored), sequence, ignored)

    def all_subscriptions(self, name: str, sequence: int, body: bytes, after: int = 1) -> Answer:
        found = self._snapshot_lines(body, "userid", lines.subscription)
        if isinstance(found, Answer):
            return found
        sender = self._instance(name)
        sender.has_sent_snapshot = True
        refused = self._out_of_order(sender, sequence, after)
        if refused is not None:
            return refused
        sender.next = sequence
        self.subscriptions = {line["userid"]: line for line in found}
        replaced = sorted(int(line["userid"]) for line in found)
        replaced = [user for user, again in zip(replaced, replaced[1:]) if user == again]
        return self._taken(len(self.subscriptions), len(replaced), sequence, [several_lines(user) for user in replaced])

    @staticmethod
    def _out_of_order(sender: Instance, sequence: int, after: int) -> Answer | None:
        if after > sender.next:
            return Answer.error("resync_required", next=sender.next)
        if sender.next > sequence:
            return Answer.error("snapshot_outdated", next=sender.next)
        return None

    def events(self, name: str, sequence: int, body: bytes) -> Answer:
        ignored: list[str] = []
        unknown: list[str] = []
        read: list[Json | str] = []
        bad: list[tuple[int, str]] = []
        for number, line in numbered(body):
            try:
                found = lines.event(checked(line), ignored)
            except Refused as reason:
                bad.append((number, str(reason)))
                continue
            if isinstance(found, str):
                unknown.append(found)
            read.append(found)
        if len(read) > EVENTS:
            return Answer.error("body_too_large")
        if bad:
            return Answer.bad_lines(bad)
        sender = self._instance(name)
        if sequence > sender.next:
            return Answer.error("resync_required", next=sender.next)
        repeats = min(sender.next - sequence, len(read))
        applied, foreign, unclaimed, owner = [], 0, 0, None
        for change in read[repeats:]:
            if isinstance(change, str):
                continue
            verdict = self._judge(change, sender)
            if verdict == "resync":
                return Answer.error("resync_required", next=sender.next)
            if verdict == "unclaimed":
                unclaimed += 1
            elif isinstance(verdict, Instance):
                foreign, owner = foreign + 1, verdict
            else:
                applied.append(change)
        for change in applied:
            self._apply(change)
        sender.next += len(read) - repeats
        reasons = [*ignored, *unknown]
        if unclaimed:
            said = "this process has neither sent a snapshot of the shard nor named it in a heartbeat. Send its snapshot first."
            reasons.insert(0, f"{unclaimed} ignored: {said}")
        if owner is not None:
            reasons.insert(0, overruled(foreign, owner))
        answer = self._taken(len(applied), len(ignored) + len(read) - len(applied), sender.next, reasons)
        if owner is not None or not read:
            answer.data.update(self._lost(sender))
        return answer

    # Lines

    def _snapshot_lines(self, body: bytes, id: str, read: Callable[[Fields], Json]) -> list[Json] | Answer:
        found: list[Json] = []
        bad: list[tuple[int, str]] = []
        ended = False
        number = 0
        for number, line in numbered(body):
            if ended:
                return Answer.bad_lines([(number, "Nothing may follow the line with `end`.")])
            try:
                fields = Fields.of(checked(line))
                said = lines.end(fields, id)
                if said is None:
                    found.append(read(fields))
                    continue
            except Refused as reason:
                bad.append((number, str(reason)))
                continue
            count = len(found) + len(bad)
            if said != count:
                return Answer.bad_lines([(number, f"`end` must be the number of lines before it, which is {count}.")])
            ended = True
        if bad:
            return Answer.bad_lines(bad)
        if ended:
            return found
        cut = 'The last line must be {"end": N} with the number of lines before it; the body may have been cut.'
        return Answer.bad_lines([(number + 1, cut)])

    @staticmethod
    def _taken(applied: int, ignored: int, next: int, reasons: list[str]) -> Answer:
        data: Json = {"applied": applied, "ignored": ignored, "next": next}
        if reasons:
            data["reasons"] = reasons[:REASONS]
        return Answer(200, data)

    # Which instance may change what

    def _instance(self, name: str) -> Instance:
        now = self._now()
        instance = self.instances.setdefault(name, Instance(name, now))
        instance.last_sign = now
        return instance

    def _is_living(self, instance: Instance) -> bool:
        return self._now() - instance.last_sign < SILENCE

    def _yields(self, owner: Instance, sender: Instance) -> bool:
        """Whether the sender's snapshot takes a shard from its owner."""
        return owner is sender or not self._is_living(owner) or (owner.started, owner.name) <= (sender.started, sender.name)

    def _counting(self, shard: Shard) -> list[Commit]:
        """The snapshots that still say something about a shard."""
        own = self.commits[shard].number if shard in self.commits else 0
        return [commit for other, commit in self.commits.items() if shard.overlaps(other) and commit.number >= own]

    def _later_owner(self, shard: Shard, sender: Instance) -> Instance | None:
        """The process that started later and owns this shard or a part of it."""
        later = [commit for commit in self._counting(shard) if not self._yields(commit.owner, sender)]
        return max(later, key=lambda commit: commit.number).owner if later else None

    def _lost(self, sender: Instance) -> Json:
        """The shards of this process that hold another one's data: `replaced` by a later-started one, or `free`."""
        lost: dict[str, list[Json]] = {"replaced": [], "free": []}
        candidates = [shard for shard in sorted(sender.own, key=lambda shard: (shard.count, shard.id)) if self._may_be_lost(shard, sender)]
        for shard in candidates[:LOST_SHARDS]:
            if self._later_owner(shard, sender) is not None:
                lost["replaced"].append(shard.name)
            elif shard not in self.commits or any(commit.owner is not sender for commit in self._counting(shard)):
                lost["free"].append(shard.name)
        return {name: shards for name, shards in lost.items() if shards}

    def _may_be_lost(self, shard: Shard, sender: Instance) -> bool:
        several_counts = len({other.count for other in self.commits}) > 1
        return several_counts or shard not in self.commits or self.commits[shard].owner is not sender

    def _judge(self, change: Json, sender: Instance) -> Instance | str:
        """`apply`, `resync`, `unclaimed`, or the process whose shard it is."""
        guild = change.get("guild") if change["type"] in ("member", "member_gone") else None
        if change["type"] in ("guild", "guild_gone"):
            guild = change["id"]
        if guild is None:
            return "apply"
        covering = [commit for shard, commit in self.commits.items() if shard.covers(guild)]
        owner = max(covering, key=lambda commit: commit.number).owner if covering else None
        if owner is not None and (owner is sender or self._is_living(owner)):
            return "apply" if self._yields(owner, sender) else owner
        named = [shard for shard in sender.own if shard.covers(guild)]
        takers = [self._later_owner(shard, sender) for shard in named]
        if named and None not in takers:
            return next(taker for taker in takers if taker is not None)
        return "unclaimed" if not named and sender.has_sent_snapshot else "resync"

    # Stored data

    def _replace(self, shard: Shard, found: list[Json]) -> None:
        old = {id: guild for id, guild in self.guilds.items() if shard.covers(id)}
        for id in old:
            del self.guilds[id]
        for line in found:
            id = line["id"]
            if not line.get("unavailable"):
                self.guilds[id] = kept(old.get(id), line)
            elif id in old:
                self.guilds[id] = old[id]

    def _commit(self, shard: Shard, sender: Instance) -> None:
        self._commit_number += 1
        self.commits[shard] = Commit(self._commit_number, sender)
        others = [(other, commit) for other, commit in self.commits.items() if other.count != shard.count]
        for other, commit in others:
            # All its guilds were sent again with the new shard count, so its old data is dropped.
            common = math.gcd(other.count, shard.count)
            ids = range(other.id % common, shard.count, common)
            newer = [self.commits.get(Shard(shard.count, id)) for id in ids]
            if all(one is not None and one.number > commit.number for one in newer):
                del self.commits[other]

    def _apply(self, change: Json) -> None:
        change = dict(change)
        kind = change.pop("type")
        if kind == "guild":
            self.guilds[change["id"]] = kept(self.guilds.get(change["id"]), change)
        elif kind == "guild_gone":
            self.guilds.pop(change["id"], None)
        elif kind in ("member", "member_gone"):
            self._apply_member(change)
        elif kind == "subscription":
            self.subscriptions[change["userid"]] = change
        elif kind == "subscription_gone":
            self.subscriptions.pop(change["userid"], None)
        elif kind == "feedback":
            self.feedback[change["id"]] = change
        elif kind == "feedback_gone":
            self.feedback.pop(change["id"], None)
        elif kind == "team":
            self.team = change["members"]
        elif kind == "user":
            self._apply_user(change)

    def _apply_member(self, change: Json) -> None:
        guild = self.guilds.get(change["guild"])
        if guild is None:
            return
        guild["staff"].pop(change["user"], None)
        granting = [role for role in change.get("roles", []) if role in guild["grants"]]
        if granting:
            guild["staff"][change["user"]] = granting

    def _apply_user(self, change: Json) -> None:
        for entry in self.feedback.values():
            if entry["submitter"]["id"] == change["id"]:
                entry["submitter"] = change
        for member in self.team:
            if member["discord_id"] == change["id"]:
                member.update({name: change[name] for name in ("username", "name", "avatar")})


def kept(stored: Json | None, line: Json) -> Json:
    """The guild of a line: what it leaves unsaid stays as it is stored, for a new guild that is nothing."""
    stored = stored or {}
    return {"grants": stored.get("grants", {}), "staff": stored.get("staff", {}), **line}


def overruled(count: int, owner: Instance) -> str:
    return (
        f"{count} ignored: the shard belongs to the process `{owner.name}`, which started later. If that one is gone, it loses the "
        "shard after 90 seconds without a heartbeat or a call."
    )


def several_lines(user: int) -> str:
    return f"The list has several lines for the user {user}; only the last one counts. Send one line per user."


def numbered(body: bytes) -> list[tuple[int, bytes]]:
    """The lines that are not empty, with their numbers from 1."""
    return [(number, line) for number, line in enumerate(body.split(b"\n"), 1) if line.strip()]


def checked(line: bytes) -> bytes:
    if len(line) > lines.LINE_BYTES:
        raise Refused("A line can be at most 1 MiB long.")
    return line
