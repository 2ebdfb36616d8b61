"""Mistakes in a bot's code. Both type checkers must find those in the marked lines, and no others."""

from __future__ import annotations

import discord

import bot_companion
from bot_companion import FeedbackEntry, Guild, Subscription, TeamMember


def grants(guild: Guild) -> dict[int, list[str]]:
    return {50: ["ADMN"]}


def set_up(guild: Guild) -> str:
    return "yes"


def attach(client: discord.Client, companion: bot_companion.Companion) -> None:
    bot_companion.attach(client, grants=grants)  # wrong
    bot_companion.attach(client, setup=set_up)  # wrong
    bot_companion.attach(client, grant=lambda guild: {})  # wrong
    bot_companion.attach(client, "https://companion.example")  # wrong
    companion.on("sinked", print)  # wrong
    companion.feedback("1", "Bright.", "5", {"id": 1, "username": "u"})  # wrong
    companion.feedback({"id": 1, "feedback": "Bright."})  # wrong
    print(companion.status()["conters"])  # wrong


subscription: Subscription = {"userid": 1}  # wrong
member: TeamMember = {"discord_id": 1, "permissions": ["OWNER"]}  # wrong
entry: FeedbackEntry = {"id": 1, "feedback": "", "rating": 5, "submitter": "marlow"}  # wrong
