"""`on_fake_discord.py PROGRAM`: runs a discord.py bot with the fake Discord at FAKE_DISCORD_API and FAKE_DISCORD_GATEWAY."""

import os
import runpy
import sys
from pathlib import Path

import discord
import yarl

discord.http.Route.BASE = f"{os.environ['FAKE_DISCORD_API']}/v10"
discord.gateway.DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(os.environ["FAKE_DISCORD_GATEWAY"])
sys.argv = sys.argv[1:]
sys.path[0] = str(Path(sys.argv[0]).parent)
runpy.run_path(sys.argv[0], run_name="__main__")
