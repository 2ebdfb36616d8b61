"""The parts of the identity provider that the service needs. A code is a person's number, a dot and any text: `7.first`. All other
codes are refused."""

from __future__ import annotations

from aiohttp import web

# The watcher is in the guilds that the bot keeps changing. Other people below this number are in quiet guilds, and the rest in none.
MEMBERS = 1_000
WATCHER = 0
CHANGING = [number << 22 for number in range(1, 151)]
QUIET = [number << 22 for number in range(201, 221)]


def person(number: int) -> int:
    """The ID of a person, spread out like the provider's IDs."""
    return (1_000_000 + number) << 22


class Provider:
    def __init__(self) -> None:
        app = web.Application()
        app.router.add_post("/api/oauth2/token", self.token)
        app.router.add_post("/api/oauth2/token/revoke", self.revoke)
        app.router.add_get("/api/users/@me", self.user)
        app.router.add_get("/api/users/@me/guilds", self.guilds)
        self.runner = web.AppRunner(app, access_log=None)
        self.url, self.port = "", 0

    async def start(self, address: str, port: int = 0) -> None:
        await self.runner.setup()
        site = web.TCPSite(self.runner, address, port)
        await site.start()
        self.port = int(self.runner.addresses[0][1])
        self.url = f"http://{address}:{self.port}/api"

    async def end(self) -> None:
        await self.runner.cleanup()

    @staticmethod
    def who(request: web.Request) -> int:
        return int(request.headers["Authorization"].removeprefix("Bearer a-").partition(".")[0])

    async def token(self, request: web.Request) -> web.Response:
        form = await request.post()
        code = str(form.get("code") or "") or str(form["refresh_token"]).removeprefix("r-")
        if not code.partition(".")[0].isdigit():
            return web.json_response({"error": "invalid_grant"}, status=400)
        life = {"token_type": "Bearer", "expires_in": 604800, "scope": "identify guilds"}
        return web.json_response({"access_token": f"a-{code}", "refresh_token": f"r-{code}", **life})

    async def revoke(self, request: web.Request) -> web.Response:
        await request.read()
        return web.json_response({})

    async def user(self, request: web.Request) -> web.Response:
        number = self.who(request)
        return web.json_response({"id": str(person(number)), "username": f"person{number}", "global_name": None, "avatar": None})

    async def guilds(self, request: web.Request) -> web.Response:
        number = self.who(request)
        mine = CHANGING if number == WATCHER else QUIET if number < MEMBERS else []
        return web.json_response([{"id": str(guild), "name": "x", "owner": False, "permissions": "0"} for guild in mine])
