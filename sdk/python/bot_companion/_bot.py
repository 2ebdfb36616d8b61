"""The bot, seen without knowing its library: discord.py, py-cord, nextcord and disnake share these names."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

STAFF = 10_000
ROLES = 250
NAME = 100


def number(value: Any, scale: float = 1.0) -> float | None:
    """A finite number that is not negative; anything else is unknown."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
        return None
    return round(float(value) * scale, 3)


def picture(asset: Any) -> str | None:
    """An asset's hash, or its address, or none."""
    if asset is None or isinstance(asset, str):
        return asset or None
    found = getattr(asset, "key", None) or getattr(asset, "url", None)
    return str(found) if found else None


def identity(thing: Any) -> int:
    """The id of a thing, or the id itself."""
    return int(getattr(thing, "id", thing))


def avatar(person: Any) -> str | None:
    """The address of what a person looks like, their own picture or the provider's default."""
    asset = getattr(person, "display_avatar", None) or getattr(person, "avatar", None)
    found = getattr(asset, "url", asset)
    return str(found) if found else None


def user(person: Any) -> dict[str, Any]:
    """A person in the words of the feed."""
    if isinstance(person, dict):
        return {**person, "id": str(person["id"])}
    username = str(getattr(person, "name", ""))
    name = getattr(person, "global_name", None) or getattr(person, "display_name", None) or username
    return {
        "id": str(identity(person)),
        "username": username,
        "name": str(name),
        "avatar": avatar(person),
    }


def memory() -> int:
    """Resident bytes of this process, not of its host."""
    try:
        with open("/proc/self/statm", "rb") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError, AttributeError):
        pass
    try:
        import resource
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak if sys.platform == "darwin" else peak * 1024)


def role_ids(member: Any, guild: int) -> set[int]:
    """Without the role of everyone, whose id is the guild's."""
    return {identity(role) for role in getattr(member, "roles", None) or ()} - {guild}


class Bot:
    """What the feed asks of a bot, and nothing that could raise."""

    def __init__(self, bot: Any, perf_counter: Callable[[], float] = time.perf_counter) -> None:
        self.raw = bot
        self._perf_counter = perf_counter

    @property
    def auto_sharded(self) -> bool:
        return isinstance(getattr(self.raw, "shards", None), dict)

    @property
    def shard_count(self) -> int:
        return int(getattr(self.raw, "shard_count", None) or 1)

    def own_shards(self) -> list[int]:
        """Of this process; other clusters report theirs."""
        if self.auto_sharded:
            return sorted(self.raw.shards)
        return [int(getattr(self.raw, "shard_id", None) or 0)]

    def shard_of(self, guild: int) -> int:
        return (guild >> 22) % self.shard_count

    def is_ready(self) -> bool:
        ready = getattr(self.raw, "is_ready", None)
        return bool(ready()) if callable(ready) else False

    def guild(self, guild: int) -> Any:
        return self.raw.get_guild(guild)

    def guilds(self) -> tuple[Any, ...]:
        return tuple(self.raw.guilds)

    def library(self) -> str | None:
        module = next(
            (kind.__module__.partition(".")[0] for kind in type(self.raw).__mro__ if kind.__name__ == "Client"),
            None,
        )
        if module is None:
            return None
        imported = sys.modules.get(module)
        # py-cord, too, is imported as `discord`.
        title = str(getattr(imported, "__title__", module))
        name = {"discord": "discord.py", "pycord": "py-cord"}.get(title, title)
        version = getattr(imported, "__version__", None)
        return f"{name} {version}"[:100] if version else name[:100]

    def health(self) -> list[dict[str, Any]]:
        found = []
        for shard in self.own_shards():
            latency = sent = acknowledged = None
            try:
                info = self.raw.shards[shard] if self.auto_sharded else self.raw
                latency = number(info.latency, 1000)
                parent = getattr(info, "_parent", info)
                alive = getattr(getattr(parent, "ws", None), "_keep_alive", None)
                sent = self._age(alive, "_last_send")
                # Before the first acknowledgement this field holds the time of the connection.
                acknowledged = None if latency is None else self._age(alive, "_last_ack")
            except Exception:  # the library has changed: better no number than no report
                pass
            found.append({"id": shard, "sent_ms_ago": sent, "acknowledged_ms_ago": acknowledged, "latency": latency})
        return found

    def _age(self, alive: Any, name: str) -> float | None:
        at = number(getattr(alive, name, None))
        return None if at is None else number(max(0.0, self._perf_counter() - at), 1000)


def base(guild: Any) -> dict[str, Any]:
    """What the library knows of a guild."""
    count = getattr(guild, "member_count", None)
    return {
        "id": str(identity(guild)),
        "name": str(guild.name)[:NAME],
        "icon": picture(getattr(guild, "icon", None)),
        "owner": str(getattr(guild, "owner_id", None) or 0),
        "members": count if isinstance(count, int) and count >= 0 else 0,
    }


def granted(member: Any, granting: Iterable[int]) -> list[str]:
    """Those of the granting roles that a member holds."""
    get_role = getattr(member, "get_role", None)
    if callable(get_role):
        return [str(role) for role in granting if get_role(role) is not None]
    held = role_ids(member, 0)
    return [str(role) for role in granting if role in held]


def staff(guild: Any, granting: frozenset[int]) -> Iterator[tuple[str, list[str]] | None]:
    """Members with a granting role; `None` now and then, for the caller to let others run."""
    # What everyone has makes nobody staff.
    wanted = sorted(granting - {identity(guild)})
    if not wanted:
        return
    for index, member in enumerate(tuple(guild.members)):
        if index % 500 == 499:
            yield None
        held = granted(member, wanted)
        if held:
            yield str(identity(member)), held
