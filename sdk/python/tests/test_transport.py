"""The transport: gzip in pieces, and how it reads answers."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator, Callable

import pytest
from aiohttp import web
from simulation import SimulatedLoop

from bot_companion._transport import Answer, HttpTransport, TransportError, pack, seconds_to_wait


async def lines(count: int, pause: float = 0.0) -> AsyncIterator[bytes]:
    for number in range(count):
        if pause:
            await asyncio.sleep(pause)
        yield b'{"id":"%d"}\n' % number


def test_slow_lines_are_flushed() -> None:
    loop = SimulatedLoop()
    arrived: list[tuple[float, bytes]] = []

    async def test() -> None:
        unpack = zlib.decompressobj(31)
        async for piece in pack(b"first\n", lines(12, pause=1.0), 5.0):
            arrived.append((loop.time(), unpack.decompress(piece)))

    loop.run(test())
    loop.finish()
    assert [when for when, _ in arrived] == [5.0, 10.0, 12.0, 12.0]
    assert arrived[0][1].startswith(b'first\n{"id":"0"}\n')
    assert b"".join(text for _, text in arrived) == b"first\n" + b"".join(b'{"id":"%d"}\n' % n for n in range(12))


def test_a_big_body_is_packed_in_pieces() -> None:
    async def test() -> None:
        pieces = [piece async for piece in pack(b"", lines(100_000), 5.0)]
        assert len(pieces) > 3
        assert gzip.decompress(b"".join(pieces)).count(b"\n") == 100_000

    asyncio.run(test())


def test_retry_after() -> None:
    assert seconds_to_wait("5", 0) == 5
    assert seconds_to_wait("-5", 0) == 0
    assert seconds_to_wait("Tue, 14 Nov 2023 22:13:30 GMT", 1_700_000_000) == 10
    assert seconds_to_wait("soon", 0) is None and seconds_to_wait(None, 0) is None


async def ask(respond: Callable[[web.Request, bytes], web.StreamResponse], body: AsyncIterator[bytes]) -> Answer:
    async def handle(request: web.Request) -> web.StreamResponse:
        return respond(request, await request.read())

    app = web.Application(client_max_size=1 << 30)
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    transport = HttpTransport(f"http://127.0.0.1:{runner.addresses[0][1]}/base/", "bck_key")
    try:
        return await transport.request("PUT", "/bot/subscriptions", {"Feed-Sequence": "2"}, body)
    finally:
        await transport.close()
        await runner.cleanup()


@pytest.mark.parametrize(("count", "packed"), [(0, False), (5, False), (5000, True)])
def test_a_request(count: int, packed: bool) -> None:
    def respond(request: web.Request, body: bytes) -> web.StreamResponse:
        assert request.path == "/base/bot/subscriptions"
        assert request.headers["Authorization"] == "Bearer bck_key"
        assert request.headers["Feed-Sequence"] == "2"
        assert (request.headers.get("Content-Encoding") == "gzip") is packed
        assert body.count(b"\n") == count
        return web.json_response({"code": 200, "message": "OK", "data": {"next": 2}})

    answer = asyncio.run(ask(respond, lines(count)))
    assert answer.status == 200 and answer.next == 2


@pytest.mark.parametrize("text", ["<html>", "[]", '{"ok": true}', "x" * 3_000_000])
def test_a_200_from_another_server_is_a_failure(text: str) -> None:
    with pytest.raises(TransportError, match="not from a bot-companion service"):
        asyncio.run(ask(lambda request, body: web.Response(text=text), lines(1)))


def test_an_error_from_a_proxy_in_between() -> None:
    answer = asyncio.run(ask(lambda request, body: web.Response(status=502, text="<html>", headers={"Retry-After": "7"}), lines(1)))
    assert answer == Answer(502, {}, "", "7")
