"""Callbacks that are slow, or give a lot, in simulated time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any

import pytest
from scenario import Json, Request, ScriptedTransport, World
from simulation import SimulatedLoop

from bot_companion import GuildPermission, _lines
from bot_companion._callbacks import Callbacks
from bot_companion._companion import Companion
from bot_companion._limits import Limits
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


def many(form: str, count: int) -> Any:
    entries: list[Json] = [{"userid": index, "active_until": None} for index in range(count)]

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
        assert lines == [_lines.subscription({"userid": index, "active_until": None}) for index in range(3)]

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
        def endless() -> Iterator[Json]:
            while True:
                yield {"userid": 1, "active_until": None}

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
    whole = _lines.subscription({"userid": "1", "slots": 0, "guilds": ["2"], "active_until": aware.timestamp()})
    for until in (naive, aware, aware.timestamp()):
        assert _lines.subscription({"userid": 1, "guilds": [SimpleNamespace(id=2)], "active_until": until}) == whole
        assert _lines.subscription(SimpleNamespace(userid="1", slots=None, guilds=["2"], active_until=until)) == whole
    assert b'"active_until":null' in _lines.subscription({"userid": 1, "active_until": None})
    assert b"active_until" not in _lines.subscription({"userid": 1}), "a mistake must not make premium that never ends"


def test_lone_surrogates_are_replaced() -> None:
    assert _lines.encode({"name": "a\ud83db"}) == '{"name":"a\ufffdb"}\n'.encode()
    assert _lines.encode({"name": "\ud83d\ude00"}) == '{"name":"😀"}\n'.encode()
