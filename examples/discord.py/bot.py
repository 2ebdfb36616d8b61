"""lantern: a small discord.py bot with a dashboard. README.md says how to run it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from pathlib import Path

import discord
from discord import app_commands

import bot_companion
from store import Store

log = logging.getLogger("lantern")


class Lantern(discord.Client):
    def __init__(self, data: Path) -> None:
        super().__init__(intents=discord.Intents(guilds=True, members=True))
        self.store = Store(data / "lantern.db")
        self.tree = app_commands.CommandTree(self)
        add_commands(self.tree)
        self.companion = bot_companion.attach(
            self,
            grants=lambda guild: self.store.grants(guild.id),
            setup=lambda guild: self.store.is_set_up(guild.id),
            linked=lambda guild: self.store.is_linked(guild.id),
            subscriptions=self.store.subscriptions,
            team=self.store.team,
            # Feedback that the service did not receive before the bot stopped is sent after the next start.
            spool=str(data / "feedback.spool"),
        )

    async def setup_hook(self) -> None:
        await self.tree.sync()


def add_commands(tree: app_commands.CommandTree[Lantern]) -> None:
    @tree.command(description="Choose who may use the dashboard")
    @app_commands.guild_only()
    @app_commands.default_permissions(manage_guild=True)
    async def setup(interaction: discord.Interaction[Lantern], admin: discord.Role, mod: discord.Role) -> None:
        bot, guild = interaction.client, interaction.guild_id
        assert guild is not None
        bot.store.set_roles(guild, admin.id, mod.id)
        bot.companion.changed(guild)
        await answer(interaction, f"{admin.name} and {mod.name} may use the dashboard now.")

    @tree.command(description="Link this server with its game server")
    @app_commands.guild_only()
    @app_commands.default_permissions(manage_guild=True)
    async def link(interaction: discord.Interaction[Lantern], game_server: str) -> None:
        bot, guild = interaction.client, interaction.guild_id
        assert guild is not None
        bot.store.set_game_server(guild, game_server)
        bot.companion.changed(guild)
        await answer(interaction, f"Linked with {game_server}.")

    @tree.command(description="Get premium for this server (a real bot would take money)")
    @app_commands.guild_only()
    async def premium(interaction: discord.Interaction[Lantern], days: app_commands.Range[int, 1, 365] = 30) -> None:
        bot, guild = interaction.client, interaction.guild_id
        assert guild is not None
        bot.store.add_premium(interaction.user.id, guild, days)
        bot.companion.subscriptions_changed()
        await answer(interaction, f"Premium for {days} days.")

    @tree.command(description="Show somebody as a member of the bot's team (for its owner)")
    async def team(interaction: discord.Interaction[Lantern], member: discord.User, title: str) -> None:
        bot = interaction.client
        if bot.application is None or interaction.user != bot.application.owner:
            await answer(interaction, "Only the bot's owner chooses its team.")
            return
        bot.store.add_to_team(member.id, member.name, member.display_name, member.display_avatar.url, title)
        bot.companion.team_changed()
        await answer(interaction, f"{member.display_name} is on the team.")

    @tree.command(description="Say what you think of lantern")
    async def feedback(interaction: discord.Interaction[Lantern], rating: app_commands.Range[int, 1, 5], text: str) -> None:
        # The interaction's ID is unique, so the entry can use it.
        delivery = interaction.client.companion.feedback(interaction.id, text[:4000], rating, interaction.user)
        await answer(interaction, "Thank you!")
        await delivery
        if not delivery.delivered:
            log.warning("feedback %s was not delivered: %s", interaction.id, delivery.reason)


async def answer(interaction: discord.Interaction[Lantern], text: str) -> None:
    await interaction.response.send_message(text, ephemeral=True, allowed_mentions=discord.AllowedMentions.none())


async def main() -> None:
    discord.utils.setup_logging()
    data = Path(os.environ.get("LANTERN_DATA", "data"))
    data.mkdir(parents=True, exist_ok=True)
    bot = Lantern(data)
    # `docker stop` sends SIGTERM. Closing the bot also sends what is queued for the service.
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, lambda: asyncio.ensure_future(bot.close()))
    try:
        await bot.start(os.environ["DISCORD_TOKEN"])
    finally:
        await bot.close()
        bot.store.close()


if __name__ == "__main__":
    asyncio.run(main())
