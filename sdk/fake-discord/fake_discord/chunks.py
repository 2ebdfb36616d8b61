"""REQUEST_GUILD_MEMBERS, and the chunks that answer it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from . import shapes
from .guilds import Guild
from .intents import GUILD_MEMBERS, GUILD_PRESENCES
from .sessions import REQUEST_MEMBERS, Connection, Session
from .shapes import Json

if TYPE_CHECKING:
    from .server import FakeDiscord

CHUNK = 1000
# At most this many members answer a request by name or by id.
FEW = 100
NONCE_BYTES = 32


async def answer(fake: FakeDiscord, connection: Connection, session: Session, asked: Json) -> None:
    guild = _guild(fake, session, asked)
    if ("query" not in asked or "limit" not in asked) and "user_ids" not in asked:
        return connection.put(4002)
    if guild is None:
        return None
    everybody = not asked.get("user_ids") and asked.get("query", "") == ""
    # Discord does not answer at all if the intent is missing.
    if everybody and not session.intents & GUILD_MEMBERS:
        return None
    nonce = asked.get("nonce")
    if not isinstance(nonce, str) or len(nonce.encode()) > NONCE_BYTES:
        nonce = None
    if everybody and int(asked.get("limit") or 0) == 0:
        wait = _asked_too_soon(fake, guild)
        if wait > 0:
            return _rate_limited(fake, session, guild, nonce, wait)
    return await _send(fake, connection, session, guild, _chunks(guild, session, asked, nonce))


def _guild(fake: FakeDiscord, session: Session, asked: Json) -> Guild | None:
    """Only one guild per request: of a list Discord takes the first."""
    identity = asked.get("guild_id")
    if isinstance(identity, list):
        identity = identity[0] if identity else None
    guild = fake.world.guilds.get(int(identity)) if str(identity).isdigit() and identity is not None else None
    return guild if guild is not None and session.holds(guild.id) and not guild.unavailable else None


def _asked_too_soon(fake: FakeDiscord, guild: Guild) -> float:
    """How long the next request for all members of a guild has to wait; 0, and this one counts."""
    now = asyncio.get_running_loop().time()
    interval = fake.world.member_request_interval
    wait = fake.gateway.last_member_request.get(guild.id, now - interval) + interval - now
    if wait <= 0:
        fake.gateway.last_member_request[guild.id] = now
    return wait


def _rate_limited(fake: FakeDiscord, session: Session, guild: Guild, nonce: str | None, wait: float) -> None:
    meta = {"guild_id": str(guild.id), **({"nonce": nonce} if nonce else {})}
    fake.record.add("RATE_LIMITED", shard=session.shard, guild=guild.id)
    session.dispatch("RATE_LIMITED", {"opcode": REQUEST_MEMBERS, "retry_after": round(wait, 3), "meta": meta})


def _found(guild: Guild, asked: Json) -> tuple[list[Json], list[str]]:
    """The members as the world describes them, and the ids that are nobody's."""
    wanted: Any = asked.get("user_ids")
    if wanted:
        ids = [str(one) for one in (wanted if isinstance(wanted, list) else [wanted])]
        known = {one: guild.members.given(int(one)) if one.isdigit() else None for one in ids}
        return [given for given in known.values() if given is not None][:FEW], [one for one, given in known.items() if given is None]
    query, limit = str(asked.get("query", "")).casefold(), int(asked.get("limit") or 0)
    if query:
        by_name = (given for given in guild.members.all_given() if shapes.user(given["user"])["username"].casefold().startswith(query))
        return list(by_name)[: min(limit or FEW, FEW)], []
    everybody = list(guild.members.all_given())
    return (everybody[:limit] if limit else everybody), []


def _chunks(guild: Guild, session: Session, asked: Json, nonce: str | None) -> list[Json]:
    found, not_found = _found(guild, asked)
    parts = [found[at : at + CHUNK] for at in range(0, len(found), CHUNK)] or [[]]
    chunks = []
    for index, part in enumerate(parts):
        chunk: Json = {
            "guild_id": str(guild.id),
            "members": [shapes.member(given) for given in part],
            "chunk_index": index,
            "chunk_count": len(parts),
        }
        if not_found:
            chunk["not_found"] = not_found
        if asked.get("presences") and session.intents & GUILD_PRESENCES:
            online = [given for given in part if given.get("status", "offline") != "offline"]
            chunk["presences"] = [shapes.presence(given) for given in online]
        if nonce is not None:
            chunk["nonce"] = nonce
        chunks.append(chunk)
    return chunks


def _partial(chunks: list[Json], keep: int) -> list[Json]:
    """The first of more chunks than are sent. The members of a small guild are split, so that some are missing there, too."""
    if len(chunks) > keep:
        return chunks[:keep]
    members = [member for chunk in chunks for member in chunk["members"]]
    size = max(1, len(members) // (keep + 1))
    return [
        {**chunks[0], "members": members[at * size : (at + 1) * size], "chunk_index": at, "chunk_count": keep + 1} for at in range(keep)
    ]


async def _send(fake: FakeDiscord, connection: Connection, session: Session, guild: Guild, chunks: list[Json]) -> None:
    fault = fake.faults.strike("chunks", guild.id, session.shard)
    if fault is not None:
        if fault.do in ("cut", "close"):
            return await connection.close(None if fault.do == "cut" else fault.code)
        if fault.do == "rate_limit":
            return _rate_limited(fake, session, guild, chunks[0].get("nonce"), fault.retry_after)
        if fault.do == "drop_chunks":
            return None
        if fault.do == "partial_chunks":
            chunks = _partial(chunks, fault.keep)
        elif fault.do == "hang":
            await fault.wait()
        else:
            await asyncio.sleep(fault.seconds)
    for chunk in chunks:
        if session.connection is not None:
            await session.connection.room()
        session.dispatch("GUILD_MEMBERS_CHUNK", chunk)
    fake.record.add("GUILD_MEMBERS_CHUNK", shard=session.shard, guild=guild.id, count=len(chunks))
    return None
