"""The control API and the program, as tests in other languages use them."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from conftest import Start
from raw import G1, GUILDS, PATIENCE, connected, guild

from fake_discord import FakeDiscord
from fake_discord.record import matches

Json = dict[str, Any]


class Control:
    def __init__(self, http: aiohttp.ClientSession, url: str) -> None:
        self.http, self.url = http, url

    async def call(self, method: str, path: str, body: Json | None = None, **query: Any) -> tuple[int, Json]:
        params = {key.rstrip("_"): str(value) for key, value in query.items()}
        async with self.http.request(method, f"{self.url}/{path}", json=body, params=params) as response:
            return response.status, await response.json()

    async def ok(self, method: str, path: str, body: Json | None = None, **query: Any) -> Json:
        status, answer = await self.call(method, path, body, **query)
        assert status == 200, answer
        return answer


def control(fake: FakeDiscord, http: aiohttp.ClientSession) -> Control:
    return Control(http, fake.addresses()["control"])


async def test_everything_can_be_done_over_http(start: Start, http: aiohttp.ClientSession) -> None:
    fake = await start()
    told = control(fake, http)
    addresses = await told.ok("POST", "world", {"guilds": [guild(1)], "token": "a.b.c", "heartbeat_interval": 1000})
    assert addresses["token"] == fake.token == "a.b.c"
    async with connected(fake) as gateway:
        await gateway.ready()
        await gateway.event("GUILD_CREATE")
        assert await told.ok("POST", "emit", {"type": "GUILD_UPDATE", "data": {"id": str(G1), "name": "Told"}}) == {"delivered": 1}
        assert (await gateway.event("GUILD_UPDATE"))["name"] == "Told"
        assert (await told.ok("GET", "world"))["guilds"][0]["name"] == "Told"
        assert await told.ok("POST", "change", {"type": "GUILD_UPDATE", "data": {"id": str(G1), "name": "Untold"}}) == {}
        assert (await told.ok("GET", "world"))["guilds"][0]["name"] == "Untold"
        assert (await told.call("POST", "change", {"data": {}}))[0] == 400
        assert await told.ok("POST", "acknowledge", {"on": False}) == {"on": False}
        assert await told.ok("POST", "reconnect", {"shard": 0}) == {"sent": 1}
        assert await told.ok("POST", "reconnect", {"shard": 1}) == {"sent": 0}
        assert (await gateway.next())["op"] == 7
        assert await told.ok("POST", "invalid_session", {"resumable": True}) == {"sent": 1}
        assert (await gateway.next())["d"] is True
        assert await told.ok("POST", "zombie", {}) == {"zombies": 1}
        assert await told.ok("POST", "drop", {"code": 4000, "forget": True}) == {"dropped": 1}
        assert await gateway.closed() == 4000
    stats = await told.ok("GET", "stats")
    assert (stats["identifies"], stats["connected"], stats["per_shard"]) == (1, 1, {"0": {"identifies": 1}})


async def test_a_world_survives_its_export(start: Start, http: aiohttp.ClientSession) -> None:
    fake = await start(generate={"guilds": 2, "members": 3, "roles": 1}, max_concurrency=1)
    exported = await control(fake, http).ok("GET", "world")
    await control(fake, http).ok("POST", "world", exported)
    assert await control(fake, http).ok("GET", "world") == exported


async def test_faults_over_http(start: Start, http: aiohttp.ClientSession) -> None:
    fake = await start()
    told = control(fake, http)
    made = await told.ok("POST", "fault", {"where": "GET /users/@me", "do": "status", "status": 418, "times": 3})
    assert (made["left"], made["hits"]) == (3, 0)
    async with http.get(f"{fake.addresses()['api']}/users/@me") as response:
        assert response.status == 418
    (shown,) = (await told.ok("GET", "faults"))["faults"]
    assert (shown["left"], shown["where"]) == (2, "GET /users/@me")
    assert await told.ok("DELETE", "faults") == {"cleared": 1}
    assert (await told.ok("GET", "faults"))["faults"] == []


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("fault", {"where": "rest", "do": "explode"}, "not possible"),
        ("fault", {"do": "status"}, "there is no 'where'"),
        ("world", {"gilds": []}, "a world has no field gilds"),
        ("world", {"privileged": ["member"]}, "no privileged intent member"),
        ("world", {"generate": {"guild": 3}}, "generate has no field guild"),
        ("emit", {"type": "GUILD_UPDATE", "data": {"id": "5"}}, "there is no 5"),
    ],
)
async def test_mistakes_are_explained(start: Start, http: aiohttp.ClientSession, path: str, body: Json, message: str) -> None:
    status, answer = await control(await start(), http).call("POST", path, body)
    assert status == 400 and message in answer["message"]


async def test_waiting_for_what_the_bot_does(start: Start, http: aiohttp.ClientSession) -> None:
    fake = await start()
    told = control(fake, http)
    waiting = asyncio.ensure_future(told.ok("GET", "wait", for_="IDENTIFY", count=2, shard=0))
    for _ in range(2):
        async with connected(fake) as gateway:
            await gateway.ready(GUILDS, large_threshold=100)
    found = await waiting
    assert found["count"] == 2 and found["entries"][0]["data"]["large_threshold"] == 100
    assert "token" not in found["entries"][0]["data"]
    log = await told.ok("GET", "log", since=found["next"])
    assert all(entry["number"] >= found["next"] for entry in log["entries"])
    status, answer = await told.call("GET", "wait", for_="RESUME", timeout=0.01)
    assert (status, answer["message"]) == (408, "RESUME happened 0 times in 0.01 s, not 1")
    assert (await told.call("GET", "wait"))[0] == 400


def test_patterns() -> None:
    listing = "GET /guilds/5/members"
    assert all(matches(p, listing) for p in ("GET /guilds/{id}/members", "/guilds/5/members", "* /guilds/*/members", "rest"))
    assert not any(matches(p, listing) for p in ("PUT /guilds/{id}/members", "GET /guilds/{id}", "GET /guilds/6/members", "IDENTIFY"))
    assert matches("identify", "IDENTIFY") and not matches("rest", "IDENTIFY") and not matches("/", "IDENTIFY")


@asynccontextmanager
async def program(*arguments: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, Json]]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "fake_discord", *arguments, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        yield process, json.loads(await asyncio.wait_for(process.stdout.readline(), PATIENCE))
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_the_program_ends_with_its_stdin(http: aiohttp.ClientSession, tmp_path: Path) -> None:
    file = tmp_path / "world.json"
    file.write_text(json.dumps({"guilds": [guild(1)], "token": "x.y.z"}))
    async with program("--with-stdin", "--world", str(file)) as (process, addresses):
        assert addresses["token"] == "x.y.z"
        async with http.get(f"{addresses['api_v10']}/users/@me", headers={"Authorization": "Bot x.y.z"}) as response:
            assert (await response.json())["username"] == "lantern"
        assert process.stdin is not None
        process.stdin.close()
        assert await asyncio.wait_for(process.wait(), PATIENCE) == 0


async def test_the_program_ends_with_a_signal() -> None:
    async with program("--with-stdin") as (process, _):
        process.terminate()
        assert await asyncio.wait_for(process.wait(), PATIENCE) == 0


async def test_a_bad_world_is_said() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "fake_discord", "--world", "nowhere.json", stderr=asyncio.subprocess.PIPE
    )
    _, errors = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert process.returncode == 1 and errors.startswith(b"fake-discord: ") and b"nowhere.json" in errors
