"""Stores lantern's data in SQLite: guild settings, premium subscriptions and team members."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

from bot_companion import Grants, Subscription, TeamMember

SCHEMA = """
CREATE TABLE IF NOT EXISTS settings (guild INTEGER PRIMARY KEY, admin_role INTEGER, mod_role INTEGER, game_server TEXT);
CREATE TABLE IF NOT EXISTS premium (user INTEGER, guild INTEGER, ends_at INTEGER, PRIMARY KEY (user, guild));
CREATE TABLE IF NOT EXISTS team (user INTEGER PRIMARY KEY, username TEXT, name TEXT, avatar TEXT, title TEXT);
"""


class Store:
    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.executescript(SCHEMA)

    def close(self) -> None:
        self._database.close()

    # Written by the commands

    def set_roles(self, guild: int, admin: int, mod: int) -> None:
        self._database.execute(
            "INSERT INTO settings (guild, admin_role, mod_role) VALUES (?, ?, ?)"
            " ON CONFLICT (guild) DO UPDATE SET admin_role = excluded.admin_role, mod_role = excluded.mod_role",
            (guild, admin, mod),
        )

    def set_game_server(self, guild: int, name: str) -> None:
        self._database.execute(
            "INSERT INTO settings (guild, game_server) VALUES (?, ?)"
            " ON CONFLICT (guild) DO UPDATE SET game_server = excluded.game_server",
            (guild, name),
        )

    def add_premium(self, user: int, guild: int, days: int) -> None:
        ends_at = int(time.time()) + days * 86400
        self._database.execute("INSERT OR REPLACE INTO premium VALUES (?, ?, ?)", (user, guild, ends_at))

    def add_to_team(self, user: int, username: str, name: str, avatar: str, title: str) -> None:
        self._database.execute("INSERT OR REPLACE INTO team VALUES (?, ?, ?, ?, ?)", (user, username, name, avatar, title))

    # Read for the dashboard

    def grants(self, guild: int) -> Grants:
        """What each role may do in the dashboard."""
        row = self._database.execute("SELECT admin_role, mod_role FROM settings WHERE guild = ?", (guild,)).fetchone()
        if row is None or row[0] is None:
            return {}
        return {row[0]: ["ADMIN", "SESSION_STARTER"], row[1]: ["MOD"]}

    def is_set_up(self, guild: int) -> bool:
        row = self._database.execute("SELECT admin_role FROM settings WHERE guild = ?", (guild,)).fetchone()
        return row is not None and row[0] is not None

    def is_linked(self, guild: int) -> bool:
        row = self._database.execute("SELECT game_server FROM settings WHERE guild = ?", (guild,)).fetchone()
        return row is not None and row[0] is not None

    def subscriptions(self) -> list[Subscription]:
        """One entry per payment: the SDK turns a user's entries into one."""
        rows = self._database.execute("SELECT user, guild, ends_at FROM premium ORDER BY user, guild")
        return [{"userid": user, "slots": 1, "guilds": [guild], "active_until": ends_at} for user, guild, ends_at in rows]

    def team(self) -> list[TeamMember]:
        rows = self._database.execute("SELECT user, username, name, avatar, title FROM team ORDER BY rowid")
        return [
            {
                "discord_id": user,
                "username": username,
                "name": name,
                "avatar": avatar,
                "role": title,
                "color": "#E0A030",
                "category": "crew",
                "position": position,
                "permissions": ["SUPPORT"],
            }
            for position, (user, username, name, avatar, title) in enumerate(rows, start=1)
        ]
