"""The client against the feed's rules, with a clock that a test moves."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any

from feed_model import DirectTransport, Feed
from simulation import FakeBot, SimulatedClock

from bot_companion._companion import Companion, Limits, subscription_line

G1, G2, G3 = "4194304", "8388608", "12582912"


class Recorder(logging.Handler):
    def __init__(self, records: list[logging.LogRecord]) -> None:
        super().__init__()
        self._records = records

    def emit(self, record: logging.LogRecord) -> None:
        self._records.append(record)


class Stage:
    def __init__(self, bot: FakeBot | None = None, **options: Any) -> None:
        self.bot = bot or FakeBot()
        self.feed = Feed()
        self.transport = DirectTransport(self.feed)
        self.clock = SimulatedClock()
        self.companion = Companion(self.bot, self.transport, clock=self.clock, rng=random.Random(7), **options)

    async def ready(self) -> None:
        self.companion.received("ready")
        await self.clock.advance(1)

    def waiting(self) -> int:
        """Everything that is kept for later."""
        kept = self.companion
        return (
            len(kept._order) + len(kept._guilds) + len(kept._members) + len(kept._gone) + len(kept._lines)
            + len(kept._feedback)
        )  # fmt: skip

    def join(self, guild: int, user: int, *roles: int) -> None:
        found = self.bot.get_guild(guild)
        assert found is not None
        self.companion.received("member_join", self.bot.member(found, user, *roles))


@contextlib.asynccontextmanager
async def stage(bot: FakeBot | None = None, **options: Any) -> AsyncIterator[Stage]:
    made = Stage(bot, **options)
    try:
        yield made
    finally:
        closing = asyncio.ensure_future(made.companion.close())
        await made.clock.advance(10)
        await closing


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def wrapper() -> None:
        asyncio.run(test())

    wrapper.__name__ = test.__name__
    return wrapper


@run
async def test_a_ready_bot_is_sent_whole() -> None:
    async with stage() as on:
        on.bot.add(4 << 22, unavailable=True)
        await on.ready()
        assert sorted(on.feed.guilds, key=int) == [G1, G2, G3]
        assert on.feed.guilds[G1] == {
            "id": G1, "name": f"guild {G1}", "icon": None, "owner": "10", "members": 5,
            "setup": False, "linked": False, "grants": {}, "staff": {},
        }  # fmt: skip
        assert on.feed.requests[0] == ("PUT", "/bot/heartbeat"), "the service must know when this process started"
        (beat,) = on.feed.heartbeats.values()
        assert beat["shards"] == [{"id": 0, "sent_ms_ago": None, "acknowledged_ms_ago": None, "latency": None}]
        assert beat["memory"] > 1_000_000 and beat["shard_count"] == 1


@run
async def test_an_outage_is_not_a_departure() -> None:
    async with stage() as on:
        await on.ready()
        guild = on.bot.guilds[0]
        guild.unavailable = True
        on.companion.changed(guild)
        on.companion.received("guild_update", guild, guild)
        await on.clock.advance(5)
        assert on.feed.events == [] and G1 in on.feed.guilds
        on.companion.received("ready")
        await on.clock.advance(5)
        assert G1 in on.feed.guilds, "a snapshot during the outage keeps it"


@run
async def test_changes_are_sent_in_order_and_together() -> None:
    async with stage() as on:
        await on.ready()
        before = len(on.feed.requests)
        guild = on.bot.add(9 << 22)
        on.companion.received("guild_join", guild)
        on.companion.received("guild_remove", on.bot.remove(int(G1)))
        on.bot.guilds[0].name = "renamed"
        on.companion.received("guild_update", None, on.bot.guilds[0])
        await on.clock.advance(0.6)
        assert [event["type"] for event in on.feed.events] == ["guild", "guild_gone", "guild"]
        assert len(on.feed.requests) == before + 1
        assert set(on.feed.guilds) == {str(9 << 22), G2, G3} and on.feed.guilds[G2]["name"] == "renamed"


@run
async def test_staff_follows_the_grants() -> None:
    asked: list[int] = []

    async def grants(guild: Any) -> dict[int, list[str]]:
        asked.append(guild.id)
        return {50: ["MOD"], guild.id: ["SESSION_STARTER"]}

    async with stage(grants=grants, setup=lambda guild: True) as on:
        guild = on.bot.guilds[0]
        guild.members = [on.bot.member(guild, 77, 50, 51), on.bot.member(guild, 78, 51)]
        await on.ready()
        assert on.feed.guilds[G1]["staff"] == {"77": ["50"]}
        assert on.feed.guilds[G1]["grants"] == {"50": ["MOD"], G1: ["SESSION_STARTER"]}
        assert on.feed.guilds[G1]["setup"] is True
        asked.clear()
        on.companion.received("member_update", on.bot.member(guild, 78, 51), on.bot.member(guild, 78, 50))
        on.companion.received("member_update", on.bot.member(guild, 79), on.bot.member(guild, 79, 51))
        on.companion.received("member_remove", on.bot.member(guild, 77, 50))
        on.companion.received("raw_member_remove", SimpleNamespace(guild_id=guild.id, user=SimpleNamespace(id=77)))
        await on.clock.advance(1)
        assert on.feed.guilds[G1]["staff"] == {"78": ["50"]}
        assert [event["type"] for event in on.feed.events] == ["member", "member_gone"]
        assert asked == [], "members come and go without a question to the bot"


@run
async def test_a_changed_callback_is_sent_and_a_failing_one_keeps_the_last() -> None:
    linked = True

    def callback(guild: Any) -> bool:
        if linked is None:
            raise RuntimeError("the database is away")
        return bool(linked)

    async with stage(linked=callback) as on:
        await on.ready()
        assert on.feed.guilds[G1]["linked"] is True
        linked = False
        on.companion.changed(int(G1))
        await on.clock.advance(1)
        assert on.feed.guilds[G1]["linked"] is False
        linked = None  # type: ignore[assignment]
        on.companion.changed()
        await on.clock.advance(1)
        assert on.feed.guilds[G1]["linked"] is False and on.feed.guilds[G2]["linked"] is True


@run
async def test_a_callback_that_never_answered_is_asked_again() -> None:
    works = False

    async def callback(guild: Any) -> bool:
        if not works:
            await asyncio.get_running_loop().create_future()
        return True

    async with stage(FakeBot(1), setup=callback) as on:
        on.companion.received("ready")
        await on.clock.advance(20)
        assert on.feed.guilds == {} and on.feed.shards, "it is left as the service has it"
        works = True
        await on.clock.advance(61)
        assert on.feed.guilds[G1]["setup"] is True


@run
async def test_the_member_count_alone_is_sent_once_a_minute() -> None:
    async with stage() as on:
        await on.ready()
        for second in range(600):
            guild = on.bot.guilds[0]
            guild.member_count += 1
            on.join(guild.id, 1000 + second)
            await on.clock.advance(1)
        await on.clock.advance(61)
        counts = [event["members"] for event in on.feed.events if event["type"] == "guild"]
        assert 9 <= len(counts) <= 11 and counts[-1] == 605


@run
async def test_an_answer_that_was_lost_is_not_applied_twice() -> None:
    async with stage() as on:
        await on.ready()
        on.feed.lose_answers = 3
        for user in range(10):
            on.join(int(G1), user)
        await on.clock.advance(30)
        assert [event["user"] for event in on.feed.events if event["type"] == "member"] == [str(n) for n in range(10)]
        assert 409 not in on.feed.answers


@run
async def test_a_lost_answer_to_a_snapshot_heals() -> None:
    async with stage() as on:
        on.feed.lose_answers = 2
        await on.ready()
        await on.clock.advance(30)
        on.join(int(G1), 5)
        await on.clock.advance(5)
        assert len(on.feed.guilds) == 3 and on.feed.events[0]["user"] == "5"


@run
async def test_a_gap_brings_everything_again() -> None:
    subscription = {"userid": 7, "slots": 2, "guilds": [int(G1)], "active_until": None}

    async def subscriptions() -> AsyncIterator[Any]:
        yield subscription

    team = [{"discord_id": "1", "name": "Marlow"}]
    async with stage(subscriptions=subscriptions, team=lambda: team) as on:
        await on.ready()
        expected = {"7": {"userid": "7", "slots": 2, "guilds": [G1], "active_until": None}}
        assert on.feed.subscriptions == expected and on.feed.team == team
        for user in range(3):
            on.join(int(G1), user)
        await on.clock.advance(2)
        on.companion.feedback("f1", "bright", 5, {"id": 3, "username": "u", "name": "U", "avatar": None})
        on.feed.forget()
        on.join(int(G2), 9)
        await on.clock.advance(5)
        assert 409 in on.feed.answers
        assert len(on.feed.guilds) == 3 and on.feed.subscriptions == expected and on.feed.team == team
        assert on.feed.feedback["f1"]["rating"] == 5, "feedback is in no snapshot and must survive"
        on.join(int(G2), 10)
        await on.clock.advance(5)
        assert on.feed.events[-1]["user"] == "10" or on.feed.events[-2]["user"] == "10"


@run
async def test_an_outdated_snapshot_is_sent_with_the_right_number() -> None:
    async with stage() as on:
        on.feed.next[on.companion.instance] = 40
        await on.ready()
        await on.clock.advance(5)
        assert 409 in on.feed.answers and len(on.feed.guilds) == 3
        on.join(int(G1), 5)
        await on.clock.advance(5)
        assert on.feed.next[on.companion.instance] > 40


@run
async def test_a_service_that_came_back_empty_is_filled_without_an_event() -> None:
    async with stage() as on:
        await on.ready()
        on.transport.reachable = False
        await on.clock.advance(40)
        on.feed.forget()
        on.transport.reachable = True
        await on.clock.advance(120)
        assert len(on.feed.guilds) == 3


@run
async def test_invalid_lines_are_left_out() -> None:
    async with stage() as on:
        on.bot.guilds[1].name = "bad"
        on.feed.invalid = {"bad"}
        await on.ready()
        assert set(on.feed.guilds) == {G1, G3}
        on.companion.feedback("1", "bad", 5, {"id": 1})
        on.companion.feedback("2", "good", 5, {"id": 1})
        on.bot.guilds[0].name = "bad"
        on.companion.received("guild_update", None, on.bot.guilds[0])
        on.join(int(G3), 4)
        await on.clock.advance(2)
        assert set(on.feed.feedback) == {"2"}
        assert [event["type"] for event in on.feed.events][0] == "member"
        on.bot.guilds[1].name = "better"
        on.companion.received("guild_update", None, on.bot.guilds[1])
        await on.clock.advance(2)
        assert on.feed.guilds[G2]["name"] == "better"


@run
async def test_retry_after_is_obeyed() -> None:
    async with stage() as on:
        on.feed.scripted = [(429, {"error": "snapshot_busy"}, {"Retry-After": "100"})]
        await on.ready()
        await on.clock.advance(98)
        assert on.feed.guilds == {}
        await on.clock.advance(3)
        assert len(on.feed.guilds) == 3


@run
async def test_an_hour_out_of_reach() -> None:
    limits = Limits(marks=300, lines=200, feedback=20)
    async with stage(FakeBot(50), limits=limits) as on:
        records: list[logging.LogRecord] = []
        handler = Recorder(records)
        logger = logging.getLogger("bot_companion")
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        await on.ready()
        on.transport.reachable = False
        on.transport.tries = 0
        most = 0
        for minute in range(60):
            for user in range(100):
                on.join((1 + (minute + user) % 50) << 22, minute * 100 + user)
                on.companion.feedback(f"{minute}-{user}", "bright", 5, {"id": user})
                most = max(most, on.waiting())
            on.bot.guilds[minute % 50].name = f"minute {minute}"
            on.companion.received("guild_update", None, on.bot.guilds[minute % 50])
            await on.clock.advance(60)
        gone = on.bot.remove(int(G1))
        on.companion.received("guild_remove", gone)
        assert most <= 3 * 301 + 20
        assert on.waiting() <= 21
        assert on.transport.tries < 400, "back-off"
        on.transport.reachable = True
        await on.clock.advance(120)
        logger.removeHandler(handler)
        assert {identity: guild["name"] for identity, guild in on.feed.guilds.items()} == {
            str(guild.id): guild.name for guild in on.bot.guilds
        }
        assert len(on.feed.feedback) == 20 and on.waiting() == 0
        loud = [record.getMessage() for record in records if record.levelno >= logging.WARNING]
        assert len([message for message in loud if "cannot be reached" in message]) == 1
        assert len(loud) == 2, loud  # the other one: feedback was dropped


@run
async def test_delays_grow_to_a_minute() -> None:
    async with stage() as on:
        on.transport.reachable = False
        await on.ready()
        on.clock.slept.clear()
        await on.clock.advance(3600)
        assert 30 <= max(seconds for seconds in on.clock.slept if seconds < 3000) <= 60


@run
async def test_a_full_buffer_becomes_a_resync() -> None:
    async with stage(limits=Limits(marks=100)) as on:
        await on.ready()
        for user in range(150):
            on.join(int(G1), user)
        assert on.waiting() == 0
        before = on.feed.requests.count(("PUT", "/bot/shards/1/0/guilds"))
        await on.clock.advance(3)
        assert on.feed.requests.count(("PUT", "/bot/shards/1/0/guilds")) == before + 1


@run
async def test_a_cluster_sends_only_its_own_shard() -> None:
    async with stage(FakeBot(0, shard_count=4, shard_id=3), subscriptions=lambda: [{"userid": 1}]) as on:
        for number in range(1, 20):
            on.bot.add(number << 22)
        await on.ready()
        assert set(on.feed.guilds) == {str(number << 22) for number in (3, 7, 11, 15, 19)}
        assert on.feed.subscriptions == {}, "that is the part of the process with shard 0"
        on.join(4 << 22, 1)
        await on.clock.advance(2)
        assert on.feed.events == []


@run
async def test_shards_become_ready_one_by_one() -> None:
    bot = FakeBot(8, shard_count=2)
    bot.shards = {0: SimpleNamespace(latency=0.05), 1: SimpleNamespace(latency=math.inf)}  # type: ignore[attr-defined]
    async with stage(bot) as on:
        on.companion.received("shard_ready", 1)
        await on.clock.advance(1)
        assert len(on.feed.guilds) == 4
        on.join(1 << 22, 5)
        on.join(2 << 22, 6)
        await on.clock.advance(1)
        assert [event["user"] for event in on.feed.events if event["type"] == "member"] == ["5"]
        on.companion.received("shard_ready", 0)
        on.companion.received("ready")
        await on.clock.advance(16)
        assert len(on.feed.guilds) == 8
        (beat,) = on.feed.heartbeats.values()
        assert [(shard["id"], shard["latency"]) for shard in beat["shards"]] == [(0, 50.0), (1, None)]


@run
async def test_close_flushes() -> None:
    async with stage() as on:
        await on.ready()
        on.join(int(G1), 5)
        on.companion.feedback("1", "good", 5, {"id": 1})
        await on.companion.close()
        assert on.feed.events and on.feed.feedback and on.transport.closed
        await on.companion.close()


@run
async def test_close_is_bounded() -> None:
    async with stage() as on:
        await on.ready()

        on.transport.hangs = True
        on.join(int(G1), 5)
        closing = asyncio.ensure_future(on.companion.close())
        await on.clock.advance(4.9)
        assert not closing.done()
        await on.clock.advance(0.2)
        assert closing.done()


@run
async def test_nothing_the_library_does_raises() -> None:
    async with stage() as on:
        await on.ready()
        for event in ("guild_join", "member_update", "guild_role_delete", "raw_member_remove", "no_such_event"):
            on.companion.received(event, object())
        on.companion.feedback("1", object(), math.nan, None)  # type: ignore[arg-type]
        on.bot.guilds[0].name = SimpleNamespace()
        del on.bot.guilds[1].name
        on.companion.changed()
        await on.clock.advance(2)
        assert set(on.feed.guilds) == {G1, G2, G3}
        on.join(int(G1), 5)
        await on.clock.advance(2)
        assert on.feed.events


@run
async def test_a_random_history_ends_in_the_truth() -> None:
    rng = random.Random(11)
    for _ in range(15):
        async with stage(FakeBot(6), limits=Limits(marks=12, batch_lines=3), grants=lambda guild: {50: ["MOD"]}) as on:
            await on.ready()
            for _ in range(120):
                choice = rng.randrange(9)
                guilds = on.bot.guilds
                if choice == 0 and len(guilds) > 1:
                    on.companion.received("guild_remove", on.bot.remove(rng.choice(guilds).id))
                elif choice == 1:
                    identity = rng.randrange(1, 9) << 22
                    if on.bot.get_guild(identity) is None:
                        on.companion.received("guild_join", on.bot.add(identity))
                elif choice in (2, 3):
                    guild = rng.choice(guilds)
                    guild.name = f"name {rng.random()}"
                    on.companion.received("guild_update", None, guild)
                elif choice in (4, 5):
                    guild, user = rng.choice(guilds), rng.randrange(5)
                    old = next((member for member in guild.members if member.id == user), None)
                    guild.members = [member for member in guild.members if member.id != user]
                    if old is None:
                        guild.members.append(on.bot.member(guild, user, 50))
                        on.companion.received("member_join", guild.members[-1])
                    else:
                        on.companion.received("member_remove", old)
                elif choice == 6:
                    on.transport.reachable = not on.transport.reachable
                elif choice == 7:
                    on.feed.lose_answers = rng.randrange(3)
                elif rng.random() < 0.2:
                    on.feed.forget()
                await on.clock.advance(rng.choice((0, 0, 0.3, 1, 20)))
            on.transport.reachable = True
            on.feed.lose_answers = 0
            await on.clock.advance(600)
            truth = {
                str(guild.id): (guild.name, {str(member.id) for member in guild.members}) for guild in on.bot.guilds
            }
            assert {key: (value["name"], set(value["staff"])) for key, value in on.feed.guilds.items()} == truth


def test_subscriptions_in_every_shape() -> None:
    naive = datetime(2030, 1, 1)
    whole = {"userid": "1", "slots": 0, "guilds": ["2"], "active_until": naive.replace(tzinfo=timezone.utc).timestamp()}
    for until in (naive, naive.replace(tzinfo=timezone.utc), whole["active_until"]):
        assert subscription_line({"userid": 1, "guilds": [SimpleNamespace(id=2)], "active_until": until}) == whole
        assert subscription_line(SimpleNamespace(userid="1", slots=None, guilds=["2"], active_until=until)) == whole
    assert subscription_line({"userid": 1, "active_until": None})["active_until"] is None
    assert "active_until" not in subscription_line({"userid": 1}), "a mistake must not make premium that never ends"
