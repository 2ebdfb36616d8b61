"""A typical bot. Both type checkers must accept it, in their strict modes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import datetime

import discord
from discord.ext import commands

import bot_companion
from bot_companion import FeedbackEntry, Guild, GuildPermission, Profile, Subscription, TeamMember


@dataclass
class Payment:
    """A row of the bot's database."""

    userid: int
    slots: int
    guilds: list[int]
    active_until: datetime


class Lantern(commands.Bot):
    companion: bot_companion.Companion

    async def setup_hook(self) -> None:
        self.companion = bot_companion.attach(
            self,
            grants=self.grants,
            setup=self.is_set_up,
            linked=lambda guild: False,
            subscriptions=self.subscriptions,
            team=self.team,
            spool="/var/lib/lantern/feedback",
            limits=bot_companion.Limits(listing_rate=5),
        )
        self.companion.on("synced", lambda: print("all is there"))
        self.companion.on("error", self.report)

    async def grants(self, guild: Guild) -> dict[int, list[GuildPermission]]:
        return {role.id: ["MOD"] for role in guild.roles if role.id != guild.id}

    def is_set_up(self, guild: discord.Guild) -> bool:
        return guild.me.guild_permissions.administrator

    async def subscriptions(self) -> AsyncIterator[Subscription]:
        yield {"userid": 1, "slots": 2, "guilds": [2, "3"], "active_until": datetime(2030, 1, 1)}
        yield Subscription(userid="4", slots=1, guilds=[], active_until=None)

    def team(self) -> Iterator[TeamMember]:
        yield {
            "discord_id": 1, "username": "marlow", "name": "Marlow", "role": "Founder", "color": "#E0A030", "category": "direction",
            "position": 1, "permissions": ["FOUNDER", "BOT_DEVELOPER"],
        }  # fmt: skip
        yield TeamMember(discord_id="2", username="ivo", role="Support", color="#5865F2", category="support", position=2)

    def report(self, message: str) -> None:
        print(message)

    async def rate(self, interaction: discord.Interaction) -> None:
        delivery = await self.companion.feedback(str(interaction.id), "Bright.", 5, interaction.user)
        if not delivery.delivered:
            print(delivery.reason)
        entry: FeedbackEntry = {"id": 7, "feedback": "Dim.", "rating": 2, "submitter": Profile(id=1, username="marlow")}
        self.companion.feedback(entry)
        self.companion.feedback_gone(7)
        self.companion.changed(interaction.guild)
        self.companion.changed(5)
        self.companion.changed()
        print(self.companion.status()["counters"]["failures"], self.companion.status()["state"] == "synced")


def list_grants(guild: discord.Guild) -> dict[discord.Role, list[GuildPermission]]:
    return {role: ["ERLC_STAFF"] for role in guild.roles}


def shown(guild: Guild) -> str:
    return f"{guild.name} ({guild.member_count})"


async def list_subscriptions() -> list[Subscription]:
    return []


async def list_payments() -> list[Payment]:
    return [Payment(1, 2, [3], datetime(2030, 1, 1))]


def plain(client: discord.Client, guild: discord.Guild) -> None:
    print(shown(guild))
    bot_companion.attach(client, subscriptions=lambda: [{"userid": 1, "slots": 1, "guilds": [2], "active_until": None}])
    bot_companion.attach(client, url="https://companion.example", key="bck_…", grants=list_grants, subscriptions=list_subscriptions)


def others(sharded: discord.AutoShardedClient, bot: commands.AutoShardedBot) -> None:
    bot_companion.attach(sharded, subscriptions=list_payments)
    bot_companion.attach(bot)
