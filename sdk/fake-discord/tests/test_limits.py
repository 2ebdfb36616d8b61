"""What a client must not do on the gateway, and how starts are rationed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from conftest import Start
from raw import GUILDS, MEMBERS, Api, connected, guild

from fake_discord import FakeDiscord
from fake_discord import gateway as gateway_module


async def test_too_much_is_sent(start: Start) -> None:
    fake = await start()
    async with connected(fake) as gateway:
        await gateway.ready()
        for _ in range(119):
            await gateway.send(3, {"status": "online", "activities": [], "since": None, "afk": False})
        await gateway.send(1, None)
        while (await gateway.next())["op"] != 11:
            pass
        await gateway.send(3, {"status": "online"})
        assert await gateway.closed() == 4008


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("not json", 4002),
        ("[]", 4002),
        ("{}", 4002),
        (json.dumps({"op": 1, "d": "x" * 4096}), 4002),
        (json.dumps({"op": 99, "d": None}), 4001),
        (json.dumps({"op": 3, "d": {}}), 4003),
        (json.dumps({"op": 8, "d": {}}), 4003),
        (json.dumps({"op": 2, "d": None}), 4002),
        (json.dumps({"op": 2, "d": {"token": "wrong", "intents": 1}}), 4004),
    ],
)
async def test_payloads_that_close_the_connection(start: Start, text: str, code: int) -> None:
    fake = await start()
    async with connected(fake) as gateway:
        await gateway.socket.send_str(text)
        assert await gateway.closed() == code


async def test_identify_twice(start: Start) -> None:
    fake = await start()
    async with connected(fake) as gateway:
        await gateway.ready()
        await gateway.identify()
        assert await gateway.closed() == 4005


@pytest.mark.parametrize(("query", "code"), [({"v": "5"}, 4012), ({"encoding": "etf"}, 4002)])
async def test_gateways_that_are_not_there(start: Start, http: Any, query: dict[str, str], code: int) -> None:
    fake = await start()
    async with http.ws_connect(fake.gateway_url(), params={"v": "10", "encoding": "json", **query}) as socket:
        await socket.receive()
        assert socket.close_code == code


async def test_a_session_with_too_many_guilds(start: Start) -> None:
    fake = await start(generate={"guilds": 11}, guilds_per_session=10)
    async with connected(fake) as gateway:
        await gateway.identify()
        assert await gateway.closed() == 4011
    async with connected(fake) as gateway:
        assert len((await gateway.ready(shard=[0, 2]))["guilds"]) == 5


async def test_identifies_of_one_bucket_follow_each_other_slowly(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_module, "IDENTIFY_INTERVAL", 300.0)
    fake = await start(strict_identify=True, max_concurrency=2)
    async with connected(fake) as first, connected(fake) as second, connected(fake) as third:
        await first.ready(shard=[0, 4])
        await second.ready(shard=[1, 4])
        await third.identify(shard=[2, 4])
        assert await third.next() == {"op": 9, "d": False, "s": None, "t": None}


async def test_the_last_session_start_resets_the_token(start: Start, api: Callable[[FakeDiscord], Api]) -> None:
    fake = await start(session_start_limit={"remaining": 2})
    old = fake.token
    _, body = await api(fake).get("/gateway/bot")
    assert body["session_start_limit"] == {"total": 1000, "remaining": 2, "reset_after": 86_400_000, "max_concurrency": 16}
    async with connected(fake) as first, connected(fake) as second, connected(fake) as third:
        await first.ready()
        await second.ready()
        assert (await api(fake).get("/gateway/bot"))[1]["session_start_limit"]["remaining"] == 0
        await third.identify()
        assert [await one.closed() for one in (first, second, third)] == [4004] * 3
    status, _, _ = await api(fake).call("GET", "/users/@me", headers={"Authorization": f"Bot {old}"})
    assert status == 401
    assert fake.token != old


async def test_heartbeats(start: Start) -> None:
    fake = await start()
    async with connected(fake) as gateway:
        await gateway.send(1, None)
        assert (await gateway.next())["op"] == 11
        fake.acknowledge = False
        await gateway.send(1, None)
        await fake.until("HEARTBEAT", 2)
        fake.acknowledge = True
        fake.fault("heartbeats", "hang", times=1)
        await gateway.send(1, None)
        await gateway.identify()
        assert (await gateway.next())["t"] == "READY", "neither was acknowledged"
        fake.fault("heartbeats", "close", code=4009)
        await gateway.send(1, None)
        assert await gateway.closed() == 4009


async def test_a_client_without_heartbeats_is_cut_off_if_the_world_is_strict(start: Start) -> None:
    fake = await start(heartbeat_interval=20, strict_heartbeats=True)
    async with connected(fake) as gateway:
        assert await gateway.closed() == 4000


@pytest.mark.parametrize("compress", ["zlib-stream", "zstd-stream", None])
async def test_compression(start: Start, compress: str | None) -> None:
    fake = await start(guilds=[guild(1, name="é" * 3000), guild(2)])
    async with connected(fake, compress=compress) as gateway:
        await gateway.ready(GUILDS | MEMBERS, compress=True)
        assert (await gateway.event("GUILD_CREATE"))["name"] == "é" * 3000
        assert (await gateway.event("GUILD_CREATE"))["name"] == "Harbour 2"
