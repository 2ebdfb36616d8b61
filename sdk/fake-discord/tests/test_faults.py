"""Faults on command, in the REST API and while connecting."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest
from conftest import Start
from raw import G1, G2, Api, connected

from fake_discord import FakeDiscord

GetApi = Callable[[FakeDiscord], Api]
LIST = "GET /guilds/{id}/members"


async def test_a_status_so_many_times(start: Start, api: GetApi) -> None:
    fake = await start()
    fault = fake.fault(LIST, "status", status=503, times=2)
    assert [(await api(fake).get(f"/guilds/{G1}/members"))[0] for _ in range(3)] == [503, 503, 200]
    assert (fault.hits, fake.faults.show()[0]["left"]) == (2, 0)
    assert [entry["status"] for entry in await fake.until(LIST, 3)] == [503, 503, 200]
    assert len(await fake.until(LIST, 2, fault="status")) == 2


async def test_until_it_is_cleared_and_only_where_it_is_meant(start: Start, api: GetApi) -> None:
    fake = await start()
    fake.fault(LIST, "status", status=500, guild=G1, body={"message": "no", "code": 7})
    for _ in range(3):
        assert await api(fake).get(f"/guilds/{G1}/members") == (500, {"message": "no", "code": 7})
    assert (await api(fake).get(f"/guilds/{G2}/members"))[0] == 200
    assert (await api(fake).get(f"/guilds/{G1}"))[0] == 200
    assert fake.clear_faults() == 1
    assert (await api(fake).get(f"/guilds/{G1}/members"))[0] == 200


@pytest.mark.parametrize("where", ["rest", "/users/@me", "* /users/*", "get /users/@me"])
async def test_ways_to_name_a_request(start: Start, api: GetApi, where: str) -> None:
    fake = await start()
    fake.fault(where, "status", status=502, body="<html>bad gateway</html>", times=1)
    assert await api(fake).get("/users/@me") == (502, "<html>bad gateway</html>")


@pytest.mark.parametrize("do", ["cut", "truncate"])
async def test_broken_answers(start: Start, api: GetApi, do: str) -> None:
    fake = await start()
    fake.fault(LIST, do)
    with pytest.raises(aiohttp.ClientError):
        await api(fake).get(f"/guilds/{G1}/members?limit=10")


async def test_a_request_hangs_until_the_fault_is_cleared(start: Start, api: GetApi) -> None:
    fake = await start()
    fake.fault(LIST, "hang", times=1)
    hanging = asyncio.ensure_future(api(fake).call("GET", f"/guilds/{G1}/members"))
    await fake.until(LIST)
    assert (await api(fake).get(f"/guilds/{G1}/members"))[0] == 200
    assert not hanging.done()
    fake.clear_faults()
    # The client asks again on its own if the connection was not a new one.
    with contextlib.suppress(aiohttp.ClientError):
        assert (await hanging)[0] == 200


async def test_a_slow_answer_is_right(start: Start, api: GetApi) -> None:
    fake = await start()
    fake.fault("rest", "slow", seconds=0.01)
    assert (await api(fake).get(f"/guilds/{G1}"))[1]["name"] == "Harbour 1"


@pytest.mark.parametrize("scope", ["user", "shared", "global"])
async def test_rate_limits_on_command(start: Start, api: GetApi, scope: str) -> None:
    fake = await start()
    fake.fault("rest", "rate_limit", retry_after=1.5, scope=scope)
    status, body, headers = await api(fake).call("GET", "/users/@me")
    assert (status, body["retry_after"], body["global"]) == (429, 1.5, scope == "global")
    assert (headers["Retry-After"], headers["X-RateLimit-Scope"], headers.get("X-RateLimit-Global")) == (
        "2", scope, "true" if scope == "global" else None,
    )  # fmt: skip
    assert fake.stats()["rate_limited"] == {"total": 1, scope: 1}


async def test_a_rate_limit_of_the_edge_is_no_json(start: Start, api: GetApi) -> None:
    fake = await start()
    fake.fault("rest", "rate_limit", scope="edge")
    status, body, headers = await api(fake).call("GET", "/users/@me")
    assert status == 429 and isinstance(body, str) and "Via" not in headers and "X-RateLimit-Scope" not in headers


async def test_connections_that_fail(start: Start, http: aiohttp.ClientSession) -> None:
    fake = await start()
    fake.fault("gateway", "status", status=503, times=1)
    with pytest.raises(aiohttp.WSServerHandshakeError, match="503"):
        await http.ws_connect(fake.gateway_url())
    fake.fault("gateway", "cut")
    with pytest.raises(aiohttp.ClientError):
        await http.ws_connect(fake.gateway_url())
    fake.clear_faults()
    fake.fault("gateway", "slow", seconds=0.01, times=1)
    async with connected(fake) as gateway:
        await gateway.ready()


async def test_hello_comes_when_the_fault_is_cleared(start: Start, http: aiohttp.ClientSession) -> None:
    fake = await start()
    fake.fault("gateway", "hang")
    async with http.ws_connect(fake.gateway_url()) as socket:
        hello = asyncio.ensure_future(socket.receive_json())
        await fake.until("CONNECT", fault="hang")
        assert not hello.done()
        fake.clear_faults()
        assert (await hello)["op"] == 10


async def test_identifies_and_resumes_that_fail(start: Start) -> None:
    fake = await start()
    fake.fault("identify", "close", code=4000, times=1)
    fake.fault("identify", "invalid_session", times=1)
    fake.fault("identify", "slow", seconds=0.01, shard=0, times=1)
    fake.fault("resume", "invalid_session", resumable=True, times=1)
    async with connected(fake) as gateway:
        await gateway.identify()
        assert await gateway.closed() == 4000
    async with connected(fake) as gateway:
        await gateway.identify()
        assert (await gateway.next())["op"] == 9
        await gateway.ready()
        await fake.until("GUILDS_SENT")
        await fake.drop()
    async with connected(fake) as other:
        await other.resume(gateway.session, 3)
        assert (await other.next())["d"] is True
        await other.resume(gateway.session, 3)
        await other.event("RESUMED")


async def test_an_identify_that_hangs_can_be_cut(start: Start) -> None:
    fake = await start()
    fault = fake.fault("identify", "hang")
    async with connected(fake) as gateway:
        await gateway.identify()
        await fake.until("IDENTIFY")
        await gateway.send(1, None)
        assert (await gateway.next())["op"] == 11, "the connection lives"
        fake.faults.clear(fault)
        await gateway.event("READY")


async def test_events_that_get_lost(start: Start) -> None:
    fake = await start()
    fake.fault("events", "drop", event="GUILD_UPDATE", guild=G1, times=1)
    async with connected(fake) as gateway:
        await gateway.ready()
        await fake.until("GUILDS_SENT")
        assert await fake.emit("GUILD_UPDATE", {"id": G1, "name": "Lost"}) == 0
        assert await fake.emit("GUILD_UPDATE", {"id": G1, "name": "Seen"}) == 1
    assert fake.world.guilds[G1].name == "Seen"


@pytest.mark.parametrize(
    ("where", "do", "options", "message"),
    [
        ("GET /users/@me", "explode", {}, "not possible at"),
        ("chunk", "hang", {}, "no fault can be at"),
        ("chunks", "status", {}, "not possible at"),
        ("rest", "status", {"tims": 3}, "a fault has no tims"),
    ],
)
async def test_a_fault_that_cannot_be(start: Start, where: str, do: str, options: dict[str, Any], message: str) -> None:
    fake = await start()
    with pytest.raises(ValueError, match=message):
        fake.fault(where, do, **options)
