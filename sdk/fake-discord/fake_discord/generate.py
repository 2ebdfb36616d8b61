"""A big world in one line: `"generate": {"guilds": 20000, "members": 20, "roles": 3}`."""

from __future__ import annotations

from collections.abc import Iterator

from .guilds import Guild, Members
from .shapes import Json

FIELDS = {"guilds", "members", "roles", "first_guild"}
# Where the ids of generated members begin.
FIRST_MEMBER = 1 << 40


def guilds(given: Json, bot: Json) -> Iterator[Guild]:
    """Guild number n (from `first_guild`, 1) has the id `n << 22`; its roles are `id + 1`, `id + 2`, …; its first member owns it.
    `members` counts people, not the bot. The first member holds the first role, the second the second, and so on."""
    unknown = set(given) - FIELDS
    if unknown:
        raise ValueError(f"generate has no field {', '.join(sorted(unknown))}; it has {', '.join(sorted(FIELDS))}")
    people, roles, first = int(given.get("members", 0)), int(given.get("roles", 0)), int(given.get("first_guild", 1))
    for number in range(first, first + int(given.get("guilds", 0))):
        yield _guild(number, people, roles, bot)


def _guild(number: int, people: int, roles: int, bot: Json) -> Guild:
    identity = number << 22
    start = FIRST_MEMBER + number * people

    def make(member: int) -> Json:
        place = member - start
        held = [str(identity + 1 + place)] if place < roles else []
        return {"user": {"id": str(member), "username": f"person{member - FIRST_MEMBER}"}, "roles": held}

    members = Members(generated=range(start, start + people), make=make)
    described: Json = {"id": identity, "name": f"Guild {number}", "member_count": people + 1}
    described["roles"] = [{"id": str(identity + 1 + place), "name": f"Role {place + 1}"} for place in range(roles)]
    if people:
        described["owner_id"] = str(start)
    return Guild(described, bot, members)
