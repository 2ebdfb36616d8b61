"""Mistakes in a bot's code. Both type checkers must find those in the marked lines, and no others."""

from __future__ import annotations

import discord

import bot_companion
from bot_companion import FeedbackEntry, Guild, Subscription, TeamMember


def grants(guild: Guild) -> dict[int, list[str]]:
    return {50: ["ADMN"]}


def set_up(guild: Guild) -> str:
    return "yes"


class Payment:
    """Lacks `active_until`."""

    userid, slots, guilds = 1, 1, [2]


def attach(client: discord.Client, companion: bot_companion.Companion) -> None:
    bot_companion.attach(client, grants=grants)  # wrong
    bot_companion.attach(client, setup=set_up)  # wrong
    bot_companion.attach(client, subscriptions=lambda: [{"userid": 1, "slots": 1, "guilds": [2]}])  # wrong
    bot_companion.attach(client, subscriptions=lambda: [Payment()])  # wrong
    bot_companion.attach(client, subscriptions=lambda: [5])  # wrong
    bot_companion.attach(None)  # wrong
    bot_companion.attach(client.get_guild(1))  # wrong
    bot_companion.attach(client, grant=lambda guild: {})  # wrong
    bot_companion.attach(client, "https://companion.example")  # wrong
    bot_companion.attach(client, limits={"listing_rate": 5})  # wrong
    bot_companion.Limits(listing_pause=0.25)  # wrong
    companion.on("sinked", print)  # wrong
    companion.hear("guild_her", 1)  # wrong
    companion.feedback("1", "Bright.", "5", {"id": 1, "username": "u"})  # wrong
    companion.feedback({"id": 1, "feedback": "Bright."})  # wrong
    print(companion.status()["conters"])  # wrong


subscription: Subscription = {"userid": 1, "guilds": [], "active_until": None}  # wrong
another: Subscription = {"userid": 1, "slots": 1, "guilds": [], "active_until": "soon"}  # wrong
nameless: TeamMember = {"discord_id": 1, "role": "Founder", "color": "#E0A030", "category": "direction", "position": 1}  # wrong
placeless: TeamMember = {"discord_id": 1, "username": "u", "role": "Founder", "color": "#E0A030", "category": "direction"}  # wrong
owner: TeamMember = {"discord_id": 1, "username": "u", "role": "r", "color": "#E0A030", "category": "c", "position": 1, "permissions": ["OWNER"]}  # wrong
entry: FeedbackEntry = {"id": 1, "feedback": "", "rating": 5, "submitter": "marlow"}  # wrong
