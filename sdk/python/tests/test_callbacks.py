"""Callbacks that are slow, or give a lot, in simulated time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from enum import Enum
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
from scenario import Json, Request, ScriptedTransport, World
from simulation import SimulatedLoop

from bot_companion import GuildPermission, _lines
from bot_companion._callbacks import Callbacks
from bot_companion._companion import Companion
from bot_companion._limits import Limits
from bot_companion._source import SourceGuild
from bot_companion._status import Status
from bot_companion._transport import Answer


class Acknowledging(ScriptedTransport):
    """Takes everything at once, and remembers it."""

    def __init__(self) -> None:
        super().__init__(False)
        self.taken: list[Request] = []

    def arrived(self, request: Request) -> None:
        self.taken.append(request)
        request.answer.set_result(Answer(200, request.acknowledgement()))


def line_of(entry: Any) -> bytes:
    return _lines.subscriptions([entry], 0.0)[0]



def test_slow_callbacks_do_not_starve_the_snapshot() -> None:
    """1,000 guilds whose callbacks take 40 ms each: one after the other that is 40 s, 16 at once 2.5 s."""
    loop = SimulatedLoop()
    running = most = 0

    async def slow(guild: Any) -> dict[int, list[GuildPermission]]:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.04)
        running -= 1
        return {50: ["MOD"]}

    async def test() -> None:
        world = World({"guilds": [{"id": str(number << 22)} for number in range(1, 1001)]})
        transport = Acknowledging()
        companion = Companion(world, transport, grants=slow)
        companion.hear("ready", 0)
        # One line follows the other: nothing waits for the last callback.
        await asyncio.sleep(2.6)
        assert [request.name for request in transport.taken] == ["PUT /bot/shards/1/0/guilds"]
        assert [int(line["id"]) for line in transport.taken[0].lines] == [number << 22 for number in range(1, 1001)]
        assert most == 16
        await companion.close()

    loop.run(test())
    loop.finish()


def premium(user: int) -> Json:
    return {"userid": user, "slots": 1, "guilds": [2], "active_until": None}


def many(form: str, count: int) -> Any:
    entries: list[Json] = [premium(index + 1) for index in range(count)]

    def generator() -> Iterator[Json]:
        yield from entries

    async def asynchronous() -> AsyncIterator[Json]:
        for entry in entries:
            yield entry

    async def coroutine() -> list[Json]:
        return entries

    async def coroutine_of_generator() -> Iterator[Json]:
        return generator()

    forms = {
        "list": lambda: entries, "generator": generator, "asynchronous": asynchronous, "coroutine": coroutine,
        "coroutine of a generator": coroutine_of_generator,
    }  # fmt: skip
    return forms[form]


@pytest.mark.parametrize("form", ["list", "generator", "asynchronous", "coroutine", "coroutine of a generator"])
def test_what_a_callback_may_give(form: str) -> None:
    async def test() -> None:
        callbacks = Callbacks(Limits(), Status(), subscriptions=many(form, 3))
        lines = await callbacks.subscriptions()
        assert lines == [line_of(premium(index)) for index in (1, 2, 3)]

    asyncio.run(test())


@pytest.mark.parametrize("form", ["generator", "asynchronous"])
def test_a_long_iteration_lets_the_bot_run(form: str) -> None:
    async def test() -> None:
        turns = 0

        async def tick() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        ticking = asyncio.ensure_future(tick())
        lines = await Callbacks(Limits(slice=0.0), Status(), subscriptions=many(form, 2000)).subscriptions()
        ticking.cancel()
        assert lines is not None and len(lines) == 2000 and turns > 2000

    asyncio.run(test())


def test_an_iteration_without_end_is_given_up() -> None:
    async def test() -> None:
        def endless() -> Iterator[Any]:
            while True:
                yield premium(1)

        status = Status()
        callbacks = Callbacks(Limits(slice=0.0, callback_timeout=0.05), status, subscriptions=endless)
        assert await callbacks.subscriptions() is None
        assert "no answer in 0.05 s" in (status.last_error or "")

    asyncio.run(test())


def test_a_callback_that_ignores_its_end_is_left_behind() -> None:
    async def test() -> None:
        over = asyncio.Event()

        async def stubborn() -> list[Any]:
            while not over.is_set():
                try:
                    await over.wait()
                except asyncio.CancelledError:
                    continue
            return []

        assert await Callbacks(Limits(callback_timeout=0.01), Status(), subscriptions=stubborn).subscriptions() is None
        over.set()

    asyncio.run(test())


def test_subscriptions_in_every_shape() -> None:
    naive = datetime(2030, 1, 1)
    aware = naive.replace(tzinfo=timezone.utc)
    whole = line_of({"userid": "1", "slots": 0, "guilds": ["2"], "active_until": aware.timestamp()})
    for until in (naive, aware, aware.timestamp()):
        given: Json = {"userid": 1, "slots": 0, "guilds": (SimpleNamespace(id=2),), "active_until": until}
        assert line_of(given) == whole
        assert line_of(SimpleNamespace(**given)) == whole
    assert b'"active_until":null' in line_of(premium(1))


@pytest.mark.parametrize("name", ["userid", "slots", "guilds", "active_until"])
def test_a_subscription_object_that_lacks_something_is_no_answer(name: str) -> None:
    given = {key: value for key, value in premium(1).items() if key != name}
    with pytest.raises(_lines.Slip, match=name):
        line_of(SimpleNamespace(**given))


@pytest.mark.parametrize(
    ("name", "value"),
    [("userid", 1.0), ("userid", 0), ("userid", True), ("userid", "1²"), ("slots", 1.5), ("slots", None), ("guilds", {2: 3}),
     ("active_until", float("nan")), ("active_until", True)],
)  # fmt: skip
def test_a_subscription_with_something_else_is_no_answer(name: str, value: Any) -> None:
    with pytest.raises(_lines.Slip, match=name):
        line_of({**premium(1), name: value})


@dataclass(frozen=True)
class Role:
    id: int


class Key(str, Enum):
    MOD = "MOD"


@pytest.mark.parametrize("keys", [["MOD"], ("MOD",), frozenset({"MOD"}), [Key.MOD]])
@pytest.mark.parametrize("role", [50, "50", Role(50)], ids=["number", "text", "object"])
def test_grants_in_every_shape(role: Any, keys: Any) -> None:
    async def test() -> None:
        answer: Any = MappingProxyType({role: keys})
        callbacks = Callbacks(Limits(), Status(), grants=lambda guild: answer)
        facts, complete = await callbacks.ask(SourceGuild(1, "", None, 1, 1, False, None))
        assert complete and facts is not None and facts.grants == {"50": ["MOD"]}

    asyncio.run(test())


def test_lone_surrogates_are_replaced() -> None:
    assert _lines.encode({"name": "a\ud83db"}) == '{"name":"a\ufffdb"}\n'.encode()
    assert _lines.encode({"name": "\ud83d\ude00"}) == '{"name":"😀"}\n'.encode()


def test_a_refused_line_is_called_what_it_is() -> None:
    assert _lines.about(line_of(premium(7))) == "the subscription of user 7"
    assert _lines.about(_lines.encode({"type": "guild", "id": "1"})) == "guild 1"
    assert _lines.about(_lines.encode({"type": "team", "members": []})) == "team"
