"""Bodies that are meant to cost more than they weigh: small when sent and large when unpacked, deep, endless, or full of keys that collide."""

from __future__ import annotations

import gzip
import itertools
import json
import random
import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from service import QUICK, guild

EVENTS, SNAPSHOT, SUBSCRIPTIONS, HEARTBEAT = "/bot/events", "/bot/shards/1/0/guilds", "/bot/subscriptions", "/bot/heartbeat"
METHODS = {EVENTS: "POST", "/auth": "POST", "/team": "GET"}
MIB = 1 << 20
GUILD = 7 << 22


@dataclass
class Bomb:
    name: str
    path: str
    # Sent in chunks; may be endless.
    parts: Iterable[bytes]
    headers: dict[str, str] = field(default_factory=dict)
    # The allowed outcomes. A few of the bodies are odd but valid.
    allowed: tuple[int, ...] = (400, 401, 413, 415, 422)
    # Whether the parts are already chunks.
    is_framed: bool = False

    @property
    def method(self) -> str:
        return METHODS.get(self.path, "PUT")


def unpacking_to(block: bytes) -> Iterator[bytes]:
    """gzip that unpacks to this text, over and over, endlessly."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    whole = block * (MIB // len(block))
    # Ends on a byte boundary and refers to nothing before it, so it can be repeated.
    packed = packer.compress(whole) + packer.flush(zlib.Z_FULL_FLUSH)
    yield b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
    while True:
        yield packed * 16


def line(value: Any) -> bytes:
    return json.dumps(value).encode() + b"\n"


def event(**fields: Any) -> bytes:
    return line({"type": "guild", **guild(GUILD, "odd"), **fields})


def raw_event(text: bytes) -> bytes:
    """An event with this text in place of a value."""
    return event(odd="MARK").replace(b'"MARK"', text)


def unpacked() -> Iterator[Bomb]:
    packed = {"Content-Encoding": "gzip"}
    blocks = {
        "zeros": b"\0" * 1024,
        "empty lines": b"\n",
        "spaces": b" " * 1023 + b"\n",
        "braces": b"{}\n",
        "brackets": b"[" * 1024,
        "quotes": b'{"a":"' + b"a" * 1018,
        "guilds": line({"id": str(GUILD), "unavailable": True}),
        "events": line({"type": "guild_gone", "id": str(GUILD)}),
        "ends": b'{"end": 0}\n',
    }
    for (name, block), path in itertools.product(blocks.items(), (EVENTS, SNAPSHOT, SUBSCRIPTIONS, HEARTBEAT)):
        yield Bomb(f"{path}: gzip of endless {name}", path, unpacking_to(block), packed)
    small = gzip.compress(event())
    odd = {
        "gzip in gzip": gzip.compress(gzip.compress(event() * 1000)),
        "truncated gzip": small[:-9],
        "a wrong checksum": small[:-8] + b"\0\0\0\0" + small[-4:],
        "a wrong length": small[:-4] + b"\xff\xff\xff\xff",
        "bytes after the end": small + b"x" * 1000,
        "not gzip": event(),
        "a damaged block": small[:12] + b"\xff\xff" + small[14:],
        "a reserved method": small[:2] + b"\x07" + small[3:],
        "nothing": b"",
    }
    for name, text in odd.items():
        yield Bomb(name, EVENTS, [text], packed)
    yield Bomb("an endless file name in the gzip header", EVENTS, itertools.chain([b"\x1f\x8b\x08\x08\0\0\0\0\0\xff"], itertools.repeat(b"n" * 65536)), packed)
    yield Bomb("an endless comment in the gzip header", EVENTS, itertools.chain([b"\x1f\x8b\x08\x10\0\0\0\0\0\xff"], itertools.repeat(b"n" * 65536)), packed)
    yield Bomb("an extra field of 64 KiB", EVENTS, [b"\x1f\x8b\x08\x04\0\0\0\0\0\xff\xff\xff" + b"n" * 65535 + b"\xff"], packed)
    yield Bomb("an endless series of empty gzip files", EVENTS, itertools.repeat(gzip.compress(b"") * 1000), packed)
    yield Bomb("endless empty blocks", SNAPSHOT, itertools.chain([b"\x1f\x8b\x08\0\0\0\0\0\0\xff"], itertools.repeat(b"\0\0\0\xff\xff" * 10_000)), packed, (400, 408, 413, 422))
    for coding in ("deflate", "br", "zstd", "gzip, gzip", "compress", "x", "gzip\t,"):
        yield Bomb(f"the encoding {coding!r}", EVENTS, [small], {"Content-Encoding": coding})


def deep() -> Iterator[Bomb]:
    depth = 200_000
    shapes = {"arrays": (b"[", b"]"), "objects": (b'{"a":', b"}"), "arrays of objects": (b'[{"a":', b"}]")}
    for name, (opening, closing) in shapes.items():
        levels = min(depth, MIB // (len(opening) + len(closing)) - 100)
        nested = opening * levels + b"1" + closing * levels
        unclosed = opening * levels
        for path in (EVENTS, SNAPSHOT, SUBSCRIPTIONS, HEARTBEAT):
            yield Bomb(f"{path}: {levels} {name}", path, [nested])
            yield Bomb(f"{path}: {levels} {name} that never close", path, [unclosed])
        # Unknown fields are skipped at any depth, and the rest of the line is applied.
        yield Bomb(f"{levels // 4} {name} in an unknown field", EVENTS, [raw_event(opening * (levels // 4) + b"1" + closing * (levels // 4))], allowed=(200, 422))
        known = event(name="MARK").replace(b'"MARK"', nested[: MIB // 2])
        yield Bomb(f"{name} in a known field", EVENTS, [known])


def numbers() -> Iterator[Bomb]:
    values = [b"1e999999", b"-1e999999", b"9" * 1_000, b"9" * 100_000, b"0." + b"0" * 100_000 + b"1", b"1e-999999", b"NaN", b"Infinity", b"-0", b"0x10", b"01", b"+1", b"1.", b".5"]
    fields = {"members": "an integer", "owner": "an id"}
    for value, name in itertools.product(values, fields):
        text = event(**{name: "MARK"}).replace(b'"MARK"', value)
        yield Bomb(f"{name} is {value[:12].decode()}", EVENTS, [text], allowed=(200, 422) if value == b"-0" else (422,))
    feedback = {"type": "feedback", "id": "odd", "feedback": "x", "rating": 5, "timestamp": 1, "submitter": {"id": "1", "username": "x", "name": "x", "avatar": None}}
    for value, name in itertools.product((b"1e400", b"1e308", b"-1e308", b"9" * 400), ("rating", "timestamp")):
        text = line({**feedback, name: "MARK"}).replace(b'"MARK"', value)
        yield Bomb(f"{name} is {value[:12].decode()}", EVENTS, [text], allowed=(422,))
    for sequence in ("18446744073709551616", "-1", "1e5", "9" * 1_000, "0", "0x1", "", "1,1", "\u0661"):
        yield Bomb(f"the sequence {sequence[:24]!r}", EVENTS, [event()], {"Feed-Sequence": sequence}, (400,))
    for sequence in ("9223372036854775807", "18446744073709551615"):
        yield Bomb(f"the sequence {sequence!r}", EVENTS, [event()], {"Feed-Sequence": sequence}, (400, 409))
    for value in (b"18446744073709551616", b"-1", b"1e30", b"9" * 500):
        yield Bomb(f"the end {value[:24].decode()}", SNAPSHOT, [line({"id": str(GUILD), "unavailable": True}), b'{"end": %s}\n' % value])
    for shard in ("0/0", "1/1", "4294967296/0", "99999999999999999999/0", "-1/0", "1/-1", "1e3/0"):
        yield Bomb(f"the shard {shard}", f"/bot/shards/{shard}/guilds", [b'{"end": 0}\n'], allowed=(400, 404, 422))


def texts() -> Iterator[Bomb]:
    named = {
        "100 KB": "x" * 100_000,
        "just below 1 MiB": "x" * (MIB - 400),
        "NULs": "\0" * 10_000,
        "controls": "".join(map(chr, range(32))) * 100,
        "emoji": "\U0001f600" * 10_000,
        "combining marks": "a" + "\u0301" * 50_000,
        "right to left": "\u202e" * 1_000,
    }
    for name, value in named.items():
        yield Bomb(f"a name of {name}", EVENTS, [event(name=value)], allowed=(422,))
        yield Bomb(f"an icon of {name}", EVENTS, [event(icon="https://x.example/" + value)], allowed=(200, 422))
    for name, text in {"a lone surrogate": b'"\\ud800"', "broken UTF-8": b'"\xff\xfe"', "long UTF-8": b'"\xc0\x80"', "half an escape": b'"\\u12"', "no end": b'"' + b"x" * 1_000}.items():
        yield Bomb(f"a name with {name}", EVENTS, [event(name="MARK").replace(b'"MARK"', text)], allowed=(422,))
    yield Bomb("a line of 1 MiB and one byte", EVENTS, [event(odd="x" * MIB)], allowed=(422,))
    yield Bomb("an endless line", SNAPSHOT, itertools.repeat(b"x" * 65536))
    yield Bomb("a byte order mark", EVENTS, [b"\xef\xbb\xbf" + event()], allowed=(422,))
    yield Bomb("UTF-16", EVENTS, [event().decode().encode("utf-16")], allowed=(422,))


def many() -> Iterator[Bomb]:
    most = 100_000 if QUICK else 2_000_000
    tiny = {"{}": b"{}\n", "an unknown event": b'{"type":"odd"}\n', "a guild that is gone": line({"type": "guild_gone", "id": str(GUILD)})}
    for name, text in tiny.items():
        yield Bomb(f"{most:,} times {name}", EVENTS, itertools.repeat(text * 1_000, most // 1_000))
    yield Bomb(f"{most:,} guilds and no end", SNAPSHOT, (b"".join(line({"id": str((first + each) << 22), "unavailable": True}) for each in range(1_000)) for first in range(0, most, 1_000)))
    yield Bomb(f"{most:,} guilds and a wrong end", SNAPSHOT, itertools.chain(itertools.repeat(line({"id": str(GUILD), "unavailable": True}) * 1_000, most // 1_000), [b'{"end": 1}\n']))
    yield Bomb("a guild that belongs to another shard", "/bot/shards/2/1/guilds", [line(guild(2 << 22, "odd")), b'{"end": 1}\n'], allowed=(422,))
    yield Bomb("400 roles", EVENTS, [event(grants={str(role): ["MOD"] for role in range(1, 401)})], allowed=(422,))
    yield Bomb("20,000 staff", EVENTS, [event(staff={str(user): ["1"] for user in range(1, 20_001)})], allowed=(422,))
    yield Bomb("100,000 roles for one member", EVENTS, [event(staff={"1": ["1"] * 100_000})], allowed=(200, 422))
    yield Bomb("50,000 unknown fields", EVENTS, [event(**{f"odd{number}": 0 for number in range(50_000)})], allowed=(200, 422))
    shards = [{"id": number} for number in range(50_000)]
    beat = {"instance": "odd", "started_at": 1, "memory": 1, "shard_count": 50_000, "shards": shards}
    yield Bomb("50,000 shards in a heartbeat", HEARTBEAT, [json.dumps(beat).encode()], allowed=(200, 413, 422))
    yield Bomb("an endless heartbeat", HEARTBEAT, itertools.repeat(b" " * 65536))
    yield Bomb("100,000 members of the team", EVENTS, [line({"type": "team", "members": [{}] * 100_000})], allowed=(422,))
    for path in ("/auth", "/team", EVENTS, SUBSCRIPTIONS):
        yield Bomb(f"{path}: endless chunks", path, itertools.repeat(b"x" * 65536), {"Idp-Code": "x"})
    # A debug build takes minutes for the million chunks of a heartbeat.
    for path in ("/auth",) if QUICK else ("/auth", HEARTBEAT):
        # On a busy machine, its time may end before its size is too large.
        chunks = itertools.repeat(b"1\r\n\n\r\n" * 10_000)
        yield Bomb(f"{path}: endless chunks of one byte", path, chunks, {"Idp-Code": "x"}, allowed=(408, 413), is_framed=True)
    yield Bomb("a wrong key and an endless body", EVENTS, itertools.repeat(b"x" * 65536), {"Authorization": "Bearer bck_" + "x" * 36}, (401,))


def staff(ids: Iterable[int]) -> bytes:
    return event(grants={"5": ["MOD"]}, staff={str(each): ["5"] for each in ids})


def colliding(count: int) -> bytes:
    """Users whose IDs are the same in all bits that a careless hash table would look at."""
    return staff(struct.unpack(">Q", struct.pack(">II", number, 1))[0] for number in range(1, count + 1))


def scattered(count: int) -> bytes:
    return staff(random.Random(1).sample(range(1 << 62), count))


def all_bombs() -> Iterator[Bomb]:
    yield from itertools.chain(unpacked(), deep(), numbers(), texts(), many())
