"""What the service has, read from its SQLite file. As a program, it prints that as JSON: shown.py DATABASE"""

from __future__ import annotations

import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

Json = dict[str, Any]
# The snapshot of the guilds that no snapshot covers.
UNCOVERED = 0


def shown(database: Path) -> Json:
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        connection.row_factory = sqlite3.Row
        # One transaction, so that all of it belongs together.
        connection.execute("BEGIN")
        return {
            "guilds": _guilds(connection),
            "subscriptions": _subscriptions(connection),
            "team": [_member(row) for row in connection.execute("SELECT * FROM team ORDER BY ordinal")],
            "feedback": {
                row["id"]: {"feedback": row["feedback"], "rating": row["rating"]} for row in connection.execute("SELECT * FROM feedback")
            },
        }


def _guilds(connection: sqlite3.Connection) -> Json:
    committed = connection.execute("SELECT * FROM feed_shards WHERE shard_count > 0 ORDER BY committed").fetchall()
    guilds = {}
    for row in connection.execute("SELECT * FROM guilds"):
        # Of the snapshots that cover a guild, the one that was committed last counts.
        covering = [shard["snapshot"] for shard in committed if (row["id"] >> 22) % shard["shard_count"] == shard["shard_id"]]
        if row["snapshot"] != (covering[-1] if covering else UNCOVERED):
            continue
        staff = connection.execute("SELECT user, roles FROM guild_staff WHERE snapshot = ? AND guild = ?", (row["snapshot"], row["id"]))
        guilds[str(row["id"])] = {
            "name": row["name"],
            "owner": str(row["owner"]),
            "members": row["members"],
            "setup": bool(row["setup"]),
            "linked": bool(row["linked"]),
            "grants": {role: sorted(keys) for role, keys in json.loads(row["grants"]).items()},
            "staff": {str(member["user"]): sorted(map(str, json.loads(member["roles"]))) for member in staff},
        }
    return guilds


def _subscriptions(connection: sqlite3.Connection) -> Json:
    found: Json = {}
    for row in connection.execute("SELECT * FROM subscriptions"):
        end = row["active_until"]
        found[str(row["userid"])] = {"slots": row["slots"], "guilds": [], "active_until": None if end is None else end / 1000}
    for row in connection.execute("SELECT * FROM subscription_guilds"):
        found[str(row["userid"])]["guilds"].append(str(row["guild"]))
    for entry in found.values():
        entry["guilds"].sort()
    return found


def _member(row: sqlite3.Row) -> Json:
    names = ("username", "role", "color", "category", "position")
    permissions = sorted(json.loads(row["permissions"]))
    return {"discord_id": str(row["discord_id"]), **{name: row[name] for name in names}, "permissions": permissions}


def copy_of(database: Path, to: Path) -> None:
    """Copies a database that may be in use."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as source, closing(sqlite3.connect(to)) as target:
        source.backup(target)


def let_time_pass(database: Path, milliseconds: int) -> None:
    """Makes every process of the bot look silent for this much longer. Only while the service is stopped."""
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("UPDATE instances SET reported = reported - ?", (milliseconds,))
        connection.execute("UPDATE feed_instances SET last_used = last_used - ?", (milliseconds,))


if __name__ == "__main__":
    print(json.dumps(shown(Path(sys.argv[1]))))
