"""The REST API."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from conftest import Start
from raw import G1, G2, GUILDS, MEMBERS, Api, connected, guild

from fake_discord import FakeDiscord, buckets

GetApi = Callable[[FakeDiscord], Api]


async def test_members_in_pages(start: Start, api: GetApi) -> None:
    fake = await start(generate={"guilds": 1, "members": 2500})
    seen: list[str] = []
    sizes = []
    for _ in range(4):
        status, page = await api(fake).get(f"/guilds/{G1}/members?limit=1000&after={seen[-1] if seen else 0}")
        assert status == 200
        sizes.append(len(page))
        seen += [member["user"]["id"] for member in page]
    assert sizes == [1000, 1000, 501, 0]
    assert len(set(seen)) == 2501
    assert seen == sorted(seen, key=int)
    assert len((await api(fake).get(f"/guilds/{G1}/members"))[1]) == 1, "the default"


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "limit=ten", "limit=-1", "after=ten"])
async def test_members_with_a_bad_query(start: Start, api: GetApi, query: str) -> None:
    fake = await start()
    status, body = await api(fake).get(f"/guilds/{G1}/members?{query}")
    assert (status, body["code"], list(body["errors"])) == (400, 50035, [query.split("=")[0]])


async def test_members_need_the_privilege(start: Start, api: GetApi) -> None:
    fake = await start(privileged=["presences"])
    assert await api(fake).get(f"/guilds/{G1}/members") == (403, {"message": "Missing Access", "code": 50001})
    assert (await api(fake).get(f"/guilds/{G1}/members/10"))[0] == 200


async def test_what_is_unknown(start: Start, api: GetApi) -> None:
    fake = await start()
    assert await api(fake).get("/guilds/5/members") == (404, {"message": "Unknown Guild", "code": 10004})
    assert await api(fake).get("/guilds/5") == (404, {"message": "Unknown Guild", "code": 10004})
    assert await api(fake).get(f"/guilds/{G1}/members/5") == (404, {"message": "Unknown Member", "code": 10007})
    assert await api(fake).get("/users/5") == (404, {"message": "Unknown User", "code": 10013})
    assert await api(fake).get("/nonsense") == (404, {"message": "404: Not Found", "code": 0})
    assert fake.stats()["unknown_requests"] == {"GET /nonsense": 1}


async def test_the_token_is_checked(start: Start, api: GetApi) -> None:
    fake = await start()
    for wrong in ("", "Bot wrong", fake.token):
        status, body, _ = await api(fake).call("GET", "/users/@me", headers={"Authorization": wrong})
        assert (status, body) == (401, {"message": "401: Unauthorized", "code": 0})
    status, body, _ = await api(fake).call("GET", "/gateway", headers={"Authorization": ""})
    assert (status, body) == (200, {"url": fake.gateway_url()})


async def test_the_bot_and_its_application(start: Start, api: GetApi) -> None:
    fake = await start(user={"id": "7", "username": "lamp"}, privileged=["members"], application={"description": "lights"})
    assert (await api(fake).get("/users/@me"))[1]["id"] == "7"
    application = (await api(fake).get("/applications/@me"))[1]
    assert (application["flags"], application["flags_new"], application["description"]) == (1 << 15, str(1 << 15), "lights")
    fake.load({"generate": {"guilds": 100}})
    assert (await api(fake).get("/oauth2/applications/@me"))[1]["flags"] == 1 << 12 | 1 << 14 | 1 << 18


async def test_guilds(start: Start, api: GetApi) -> None:
    fake = await start(generate={"guilds": 500, "members": 1, "roles": 2})
    first = (await api(fake).get("/users/@me/guilds?with_counts=true"))[1]
    assert (len(first), first[0]["approximate_member_count"]) == (200, 2)
    rest = (await api(fake).get(f"/users/@me/guilds?after={first[-1]['id']}&limit=200"))[1]
    assert int(rest[0]["id"]) == 201 << 22
    before = (await api(fake).get(f"/users/@me/guilds?before={5 << 22}&limit=2"))[1]
    assert [int(one["id"]) >> 22 for one in before] == [3, 4]
    assert (await api(fake).get(f"/guilds/{G1}"))[1]["name"] == "Guild 1"
    assert [role["name"] for role in (await api(fake).get(f"/guilds/{G1}/roles"))[1]] == ["@everyone", "Role 1", "Role 2"]
    assert (await api(fake).get(f"/guilds/{G1}/channels"))[1] == []


async def test_members_by_name_and_their_roles(start: Start, api: GetApi) -> None:
    fake = await start(guilds=[guild(1, roles=[{"id": "50"}])])
    found = (await api(fake).get(f"/guilds/{G1}/members/search?query=person&limit=5"))[1]
    assert [member["user"]["id"] for member in found] == ["10", "11"]
    async with connected(fake) as gateway:
        await gateway.ready(GUILDS | MEMBERS)
        await gateway.event("GUILD_CREATE")
        for method, roles in (("PUT", ["50"]), ("DELETE", [])):
            assert (await api(fake).call(method, f"/guilds/{G1}/members/10/roles/50"))[0] == 204
            assert (await gateway.event("GUILD_MEMBER_UPDATE"))["roles"] == roles
    assert (await api(fake).call("PUT", f"/guilds/{G1}/members/10/roles/51"))[0] == 404


async def test_what_py_cord_asks_for_when_it_starts(start: Start, api: GetApi) -> None:
    fake = await start()
    assert await api(fake).get("/soundboard-default-sounds") == (200, [])
    assert await api(fake).get("/applications/900/emojis") == (200, {"items": []})


async def test_commands(start: Start, api: GetApi) -> None:
    fake, path = await start(), "/applications/900/commands"
    _, made, _ = await api(fake).call("PUT", path, json=[{"name": "ping"}, {"name": "pong"}])
    assert [(one["name"], one["application_id"], one["type"]) for one in made] == [("ping", "900", 1), ("pong", "900", 1)]
    status, again, _ = await api(fake).call("POST", path, json={"name": "ping", "description": "new"})
    assert status == 201
    assert [one["name"] for one in (await api(fake).get(path))[1]] == ["pong", "ping"]
    assert (await api(fake).call("PATCH", f"{path}/{again['id']}", json={"description": "newer"}))[1]["description"] == "newer"
    assert (await api(fake).call("DELETE", f"{path}/{again['id']}"))[0] == 204
    assert (await api(fake).get(f"{path}/{again['id']}"))[1]["code"] == 10063
    assert (await api(fake).get(f"/applications/900/guilds/{G1}/commands"))[1] == []


async def test_what_a_bot_says_is_recorded(start: Start, api: GetApi) -> None:
    fake = await start()
    status, message, _ = await api(fake).call("POST", "/channels/5/messages", json={"content": "hello"})
    assert (status, message["content"], message["channel_id"], message["author"]["id"]) == (200, "hello", "5", "900")
    assert (await api(fake).call("POST", "/interactions/1/token/callback", json={"type": 4}, headers={"Authorization": ""}))[0] == 204
    (said,) = await fake.until("POST /channels/{id}/messages")
    assert (said["body"], said["status"]) == ({"content": "hello"}, 200)


async def test_a_configured_bucket(start: Start, api: GetApi) -> None:
    fake = await start(rate_limits={"GET /guilds/{id}/members": {"limit": 2, "per": 300}})
    remaining = []
    for _ in range(2):
        status, _, headers = await api(fake).call("GET", f"/guilds/{G1}/members")
        assert status == 200
        remaining.append(headers["X-RateLimit-Remaining"])
    assert remaining == ["1", "0"]
    status, body, headers = await api(fake).call("GET", f"/guilds/{G1}/members")
    assert (status, body["global"], headers["X-RateLimit-Scope"], headers["X-RateLimit-Limit"]) == (429, False, "user", "2")
    assert 0 < body["retry_after"] <= 300 and int(headers["Retry-After"]) >= body["retry_after"] and headers["Via"]
    assert (await api(fake).get(f"/guilds/{G2}/members"))[0] == 200, "each guild has a bucket of its own"
    assert "X-RateLimit-Limit" not in (await api(fake).call("GET", "/users/@me"))[2]


async def test_the_global_limit(start: Start, api: GetApi, monkeypatch: pytest.MonkeyPatch) -> None:
    # A slow machine may need more than a second for three requests.
    monkeypatch.setattr(buckets, "GLOBAL_WINDOW", 300.0)
    fake = await start(global_rate_limit=2)
    assert [(await api(fake).get("/users/@me"))[0] for _ in range(2)] == [200, 200]
    status, body, headers = await api(fake).call("GET", "/users/@me")
    assert (status, body["global"], headers["X-RateLimit-Global"], headers["X-RateLimit-Scope"]) == (429, True, "true", "global")
    assert fake.stats()["rate_limited"] == {"total": 1, "global": 1}
    (limited,) = fake.record.entries(limited="global")
    assert limited["what"] == "GET /users/@me"
