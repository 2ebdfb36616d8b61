"""A bot that changes at random and reports through the Python SDK. `tests/system/kill-feed` runs it beside a service that is killed again
and again; the SDK is told nothing of the kills.

It obeys commands on its input, one per line, and answers each with one line of JSON:

  attach team           connects the SDK, which reports the guilds, the feedback and the team
  attach subscriptions  the same with the subscriptions in place of the team
  detach                disconnects the SDK, if it is connected
  live                  begins to change
  rest                  stops changing, and tells everything about itself in the feed's words
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import random
import sys
from types import SimpleNamespace
from typing import Any

from bot_companion import Companion, Grants, Profile
from bot_companion._limits import Limits
from bot_companion._source import Member, SourceGuild
from bot_companion._transport import HttpTransport

Json = dict[str, Any]
URL, KEY = os.environ["COMPANION_URL"], os.environ["COMPANION_BOT_KEY"]
# The member whose roles change.
MEMBER = int(os.environ["PRETEND_MEMBER"])
OWNER = 5
MOD_ROLE, ADMIN_ROLE, OTHER_ROLE = 60, 61, 62
GRANTS: Grants = {str(MOD_ROLE): ["MOD"], str(ADMIN_ROLE): ["ADMIN"]}
# All of shard 0 of 2.
GUILDS = [(2 * number) << 22 | 5 for number in range(1, 41)]
PAYERS = range(300, 310)


def roster(role: str) -> list[Any]:
    known = {"username": "crew", "name": "Crew", "avatar": "https://cdn.example/a.png", "color": "#E0A030", "category": "crew"}
    return [{**known, "discord_id": str(200 + n), "role": role, "position": n, "permissions": []} for n in (1, 2, 3)]


class PretendBot:
    """Takes the place of the library: the SDK gets its data from here."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.world: dict[int, Any] = {}
        self.premium: dict[int, Json] = {}
        self.team_role = "b0"
        self.said = {"bot-1": "", "bot-2": ""}
        self.count = 0
        for identity in GUILDS[::2]:
            self.join(identity)

    # What the SDK calls

    def name(self) -> str:
        return "pretend"

    def library(self) -> str | None:
        return None

    def shard_count(self) -> int:
        return 2

    def own_shards(self) -> list[int]:
        return [0]

    def shard_health(self) -> list[Json]:
        return [{"id": 0, "sent_ms_ago": None, "acknowledged_ms_ago": None, "latency": 40.0}]

    def guild_ids(self) -> list[int]:
        return list(self.world)

    def guild(self, guild: int) -> SourceGuild | None:
        found = self.world.get(guild)
        return found and SourceGuild(guild, found.name, None, OWNER, found.member_count, False, found)

    def cached_members(self, guild: int) -> list[Member] | None:
        return [(member.id, member.roles) for member in self.world[guild].members]

    def has_members_intent(self) -> bool:
        return True

    async def member_page(self, guild: int, after: int) -> tuple[list[Member], int | None]:
        raise NotImplementedError("the cache has every member")

    # What changes

    def join(self, identity: int) -> Any:
        self.count += 1
        guild = SimpleNamespace(id=identity, name=f"b{self.count}", icon=None, owner_id=OWNER, unavailable=False)
        guild.member_count, guild.setup, guild.linked = self.rng.randrange(1, 1000), self.rng.random() < 0.5, False
        guild.members = [self.member(guild, MEMBER, self.roles())] if self.rng.random() < 0.7 else []
        self.world[identity] = guild
        return guild

    def roles(self) -> list[int]:
        return [role for role in (MOD_ROLE, ADMIN_ROLE, OTHER_ROLE) if self.rng.random() < 0.5]

    @staticmethod
    def member(guild: Any, identity: int, roles: list[int]) -> Any:
        return SimpleNamespace(id=identity, guild=guild, roles=[guild.id, *roles])

    def change(self, companion: Companion) -> None:
        self.count += 1
        what = self.rng.randrange(9)
        guild = self.rng.choice(list(self.world.values())) if self.world else None
        if what == 0 or guild is None:
            absent = [identity for identity in GUILDS if identity not in self.world]
            if absent:
                companion.hear("guild_here", self.join(self.rng.choice(absent)).id)
        elif what == 1 and len(self.world) > 5:
            del self.world[guild.id]
            companion.hear("guild_gone", guild.id)
        elif what in (2, 3):
            guild.name = f"b{self.count}"
            companion.hear("guild_changed", guild.id)
        elif what in (4, 5):
            self.change_member(companion, guild)
        elif what == 6:
            guild.setup, guild.linked = self.rng.random() < 0.5, self.rng.random() < 0.5
            companion.changed(guild)
        elif what == 7:
            identity = self.rng.choice(list(self.said))
            self.said[identity] = f"b{self.count}"
            rater: Profile = {"id": "91", "username": "other", "name": "Other", "avatar": None}
            companion.feedback(identity, f"b{self.count}", 5, rater, 1_700_000_000)
        elif self.rng.random() < 0.5:
            self.team_role = f"b{self.count}"
            companion.team_changed()
        else:
            self.change_subscription()
            companion.subscriptions_changed()

    def change_member(self, companion: Companion, guild: Any) -> None:
        if guild.members and self.rng.random() < 0.3:
            left = guild.members.pop()
            guild.member_count -= 1
            companion.hear("member_gone", guild.id, left.id)
            return
        event = "member" if guild.members else "member_joined"
        guild.member_count += not guild.members
        guild.members = [self.member(guild, MEMBER, self.roles())]
        companion.hear(event, guild.id, MEMBER, guild.members[0].roles)

    def change_subscription(self) -> None:
        payer = self.rng.choice(PAYERS)
        if payer in self.premium:
            del self.premium[payer]
        else:
            # One guild each, so that the expected result is certain.
            guilds = [str(GUILDS[payer - PAYERS[0]])]
            self.premium[payer] = {"userid": str(payer), "slots": self.count, "guilds": guilds, "active_until": None}

    async def live(self, companion: Companion) -> None:
        while True:
            self.change(companion)
            await asyncio.sleep(self.rng.choice([0, 0.005, 0.01, 0.03]))

    # What the bot reports about itself

    def guild_line(self, guild: Any) -> Json:
        staff = {str(member.id): [str(role) for role in member.roles] for member in guild.members}
        return {"id": str(guild.id), "name": guild.name, "icon": None, "owner": str(OWNER), "members": guild.member_count,
                "setup": guild.setup, "linked": guild.linked, "grants": GRANTS, "staff": staff}  # fmt: skip

    def everything(self) -> Json:
        return {"guilds": [self.guild_line(guild) for guild in self.world.values()], "feedback": sorted(filter(None, self.said.values())),
                "team": roster(self.team_role), "subscriptions": list(self.premium.values()), "changes": self.count}  # fmt: skip


def attach(bot: PretendBot, what: str) -> Companion:
    limits = Limits(heartbeat_interval=0.5, gather_time=0.02, first_retry=0.02, longest_retry=0.3, member_count_interval=0.2)
    companion = Companion(
        bot,
        HttpTransport(URL, KEY),
        grants=lambda guild: GRANTS,
        setup=lambda guild: bool(guild.setup),
        linked=lambda guild: bool(guild.linked),
        # Both replace what was sent before, so only one of the test's two bots may send them.
        subscriptions=(lambda: list(bot.premium.values())) if what == "subscriptions" else None,
        team=(lambda: roster(bot.team_role)) if what == "team" else None,
        limits=limits,
    )
    companion.hear("session", 0, bot.guild_ids())
    companion.hear("ready", 0)
    return companion


async def main() -> None:
    bot = PretendBot(random.Random(int(os.environ["PRETEND_SEED"])))
    companion: Companion | None = None
    living: asyncio.Task[None] | None = None
    while line := await asyncio.to_thread(sys.stdin.readline):
        command, _, argument = line.strip().partition(" ")
        answer: Json = {}
        if command == "attach":
            companion = attach(bot, argument)
        elif command == "detach":
            if companion is not None:
                await companion.close()
            companion = None
        elif command == "live" and companion is not None:
            living = asyncio.create_task(bot.live(companion))
        elif command == "rest" and living is not None:
            living.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await living
            answer = bot.everything()
        else:
            raise SystemExit(f"no such command, or not now: {line}")
        print(json.dumps(answer), flush=True)
    if companion is not None:
        await companion.close()


if __name__ == "__main__":
    # The SDK logs each time that it can't reach the service, which is expected here.
    logging.getLogger("bot_companion").setLevel(logging.ERROR)
    asyncio.run(main())
