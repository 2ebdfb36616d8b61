"""A corpus of requests whose end two programs could find at two places, made by combination and the same in every run.

Each is a text with marks: ATTACK and HIDDEN stand for paths of the same length, which nothing else asks for. The request for HIDDEN lies where only one
of several readings sees a request, so nobody may answer it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

HOST = b"Host: 127.0.0.1\r\n"
HIDDEN = b"GET HIDDEN HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
METHODS = (b"POST", b"PUT", b"GET", b"DELETE")


@dataclass(frozen=True)
class Case:
    name: str
    text: bytes


def head(method: bytes, *lines: bytes, version: bytes = b"HTTP/1.1") -> bytes:
    return method + b" ATTACK " + version + b"\r\n" + HOST + b"".join(line + b"\r\n" for line in lines) + b"\r\n"


def chunked(*parts: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


CODINGS = [
    b"Transfer-Encoding: chunked",
    b"Transfer-Encoding:chunked",
    b"Transfer-Encoding:  chunked",
    b"Transfer-Encoding:\tchunked",
    b"Transfer-Encoding: chunked ",
    b"Transfer-Encoding: chunked\t",
    b"transfer-encoding: CHUNKED",
    b"Transfer-Encoding : chunked",
    b" Transfer-Encoding: chunked",
    b"Transfer-Encoding\t: chunked",
    b"Transfer-Encoding: xchunked",
    b"Transfer-Encoding: chunkedx",
    b"Transfer-Encoding: chunked, identity",
    b"Transfer-Encoding: identity, chunked",
    b"Transfer-Encoding: gzip, chunked",
    b"Transfer-Encoding: chunked, chunked",
    b"Transfer-Encoding: chunked,",
    b"Transfer-Encoding: ,chunked",
    b"Transfer-Encoding: chunked; a=b",
    b'Transfer-Encoding: "chunked"',
    b"Transfer-Encoding: identity",
    b"Transfer-Encoding:",
    b"Transfer-Encoding: chunked\0",
    b"Transfer-Encoding: \x0bchunked",
    b"Transfer-Encoding: \x0cchunked",
    b"Transfer-Encoding: chunk\xc3\xa9d",
    b"Transfer-Encoding:\r\n chunked",
    b"Transfer-Encoding:\r\n\tchunked",
    b"X: x\r\n Transfer-Encoding: chunked",
    b"X: x\rTransfer-Encoding: chunked",
    b"X: x\nTransfer-Encoding: chunked",
    b"X: x\0\r\nTransfer-Encoding: chunked",
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
    b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked",
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
    b"Transfer_Encoding: chunked",
    b"Transfer-Encoding\xc2\xa0: chunked",
    b"\xef\xbb\xbfTransfer-Encoding: chunked",
    b"Transfer-Encoding: chunked\r\nConnection: Transfer-Encoding",
    b"Transfer-Encoding: chunked\r\nTE: trailers, chunked",
]

LENGTHS = [
    b"%d", b"0%d", b"00000000000000000000%d", b"+%d", b"-%d", b"%d ", b" %d", b"\t%d", b"%d\t", b"%d,%d", b"%d, %d", b"%d,0", b"0,%d", b"%d %d", b"%d;",
    b"%d.0", b"%de0", b"0x%d", b"'%d'", b'"%d"', b"%d\0", b"%d\x0b", b"1%d", b"", b"five", b"\xd9\xa5", b"\xc2\xb2", b"18446744073709551616",
    b"18446744073709551617", b"9223372036854775808", b"99999999999999999999999999999999", b"-1", b"--1", b"1_0", b"0b1",
]  # fmt: skip

CHUNK_SIZES = [
    b"%x;a", b"%x;a=b", b'%x;a="b"', b'%x;a="\r\n"', b"%x ;a=b", b"%x; a=b", b"%x;", b"%x;;", b"%x ", b"%x\t", b" %x", b"\t%x", b"0%x", b"00000000000000000000%x",
    b"0x%x", b"+%x", b"-%x", b"%x,", b"%x.0", b"%x\0", b"%x\x0b", b"%xg", b"_%x", b"%x;a\nb", b"%x;a\rb", b"%x;a=\0", b"%x;\n", b"f%x", b"10000000000000000%x",
    b"FFFFFFFFFFFFFFFF", b"FFFFFFFFFFFFFFF0", b"8000000000000000", b"7FFFFFFFFFFFFFFF", b"100000000", b"FFFFFFFF", b"", b"\xd9\xa5", b"%x;" + b"e" * 20_000,
]  # fmt: skip

CHUNK_ENDS = [b"\r\n", b"\n", b"\r", b"\r\r\n", b"\n\r", b"", b"\r\n\r\n", b"  \r\n", b"\0\r\n"]

LAST_CHUNKS = [
    b"0\r\n\r\n", b"00\r\n\r\n", b"0;a\r\n\r\n", b"0 \r\n\r\n", b"-0\r\n\r\n", b"0x0\r\n\r\n", b"0\n\n", b"0\r\r", b"0\r\n\n", b"0\n\r\n",
    b"0\r\nTrailer: x\r\n\r\n", b"0\r\nContent-Length: 50\r\n\r\n", b"0\r\nTransfer-Encoding: chunked\r\n\r\n", b"0\r\nHost: other\r\n\r\n",
    b"0\r\nnot a header\r\n\r\n", b"0\r\n folded\r\n\r\n", b"0\r\nX: a\r\n b\r\n\r\n", b"0\r\nX\0: a\r\n\r\n", b"0\r\n" + b"T: x\r\n" * 300 + b"\r\n",
    b"0\r\nX: " + b"x" * 70_000 + b"\r\n\r\n",
]  # fmt: skip

REQUEST_LINES = [
    b"GET ATTACK", b"GET ATTACK HTTP/0.9", b"GET ATTACK HTTP/1.0", b"GET ATTACK HTTP/1.2", b"GET ATTACK HTTP/2.0", b"GET ATTACK HTTP/3", b"GET ATTACK HTTP/1.1 ",
    b"GET ATTACK HTTP/01.1", b"GET ATTACK HTTP/1.01", b"GET ATTACK http/1.1", b"GET ATTACK HTTP/1,1", b"GET ATTACK XTTP/1.1", b"GET ATTACK HTTP/1.1\t",
    b"GET  ATTACK HTTP/1.1", b"GET ATTACK  HTTP/1.1", b"GET\tATTACK\tHTTP/1.1", b" GET ATTACK HTTP/1.1", b"\tGET ATTACK HTTP/1.1", b"GET\x0bATTACK HTTP/1.1",
    b"get ATTACK HTTP/1.1", b"G\0T ATTACK HTTP/1.1", b"GET: ATTACK HTTP/1.1", b"G\xc3\x89T ATTACK HTTP/1.1", b"ATTACK HTTP/1.1", b"GET HTTP/1.1", b"GET",
    b"GET ATTACK HTTP/1.1 GET HIDDEN HTTP/1.1", b"GET ATTACK\0 HTTP/1.1", b"GET ATTACK\x7f HTTP/1.1", b"GET ATTACK\xc3\xa9 HTTP/1.1", b"GET ATTACK\xff HTTP/1.1",
    b"GET ATTACK#HIDDEN HTTP/1.1", b"GET ATTACK?a=\rb HTTP/1.1", b"GET ATTACK%0d%0aX:%20y HTTP/1.1", b"GET ATTACK%00 HTTP/1.1", b"GET ATTACK\\..\\team HTTP/1.1",
    b"GET http://127.0.0.1ATTACK HTTP/1.1", b"GET http://other.exampleATTACK HTTP/1.1", b"GET https://127.0.0.1ATTACK HTTP/1.1", b"GET //otherATTACK HTTP/1.1",
    b"GET ftp://127.0.0.1ATTACK HTTP/1.1", b"GET http:ATTACK HTTP/1.1", b"GET http://a@127.0.0.1ATTACK HTTP/1.1", b"GET http://127.0.0.1:99999ATTACK HTTP/1.1",
    b"GET * HTTP/1.1", b"OPTIONS * HTTP/1.1", b"CONNECT 127.0.0.1:1 HTTP/1.1", b"CONNECT ATTACK HTTP/1.1", b"TRACE ATTACK HTTP/1.1", b"PRI * HTTP/2.0",
    b"GET ATTACK" + b"a" * 70_000 + b" HTTP/1.1", b"M" * 20_000 + b" ATTACK HTTP/1.1", b"HEAD ATTACK HTTP/1.1", b"PATCH ATTACK HTTP/1.1", b"OPTIONS ATTACK HTTP/1.1",
]  # fmt: skip

HEADERS = [
    b"X: a\r\n b", b"X: a\r\n\tb", b"X:\r\n b", b" X: a", b"\tX: a", b"X : a", b"X\t: a", b"no colon", b": no name", b"X Y: a", b"X\0: a", b"X: a\0b", b"X: a\x01b", b"X: a\x7fb",
    b"X\xc3\xa9: a", b"X: \xc3\xa9", b"X: \xff\xfe", b"X: a\rb", b"X: a\r", b"X: a\nY: b", b"X(: a", b'X": a', b"X/: a", b"X;: a", b"X@: a", b"X{: a", b"\x0bX: a",
    b"Host: 127.0.0.1", b"Host: other.example", b"HOST: other.example", b"Host:", b"Host: a b", b"Host: a,b", b"Host: a@b", b"Host: a/b", b"Host: a\0", b"Host : other",
    b"Connection: close", b"Connection: keep-alive", b"Connection: Host", b"Connection: Content-Length", b"Connection: close, keep-alive", b"Connection: X-Request-Id",
    b"Connection: upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA", b"Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13",
    b"Expect: 100-continue", b"Expect: 100-CONTINUE ", b"Expect: 200-ok", b"Expect: 100-continue\r\nExpect: 100-continue", b"TE: chunked", b"Trailer: Content-Length",
    b"Content-Encoding: gzip", b"X-HTTP-Method-Override: DELETE", b"X-Forwarded-For: 1\r\n 2", b"X-Request-Id: a\r\n b", b"Max-Forwards: 0", b"Range: bytes=0-0",
    b"Keep-Alive: timeout=1000", b"Proxy-Connection: keep-alive", b"Via: 1.0 x", b"X: " + b"x" * 17_000, b"\r\n".join(b"X-%d: x" % number for number in range(90)),
]  # fmt: skip


def conflicts() -> Iterator[Case]:
    """A length and a coding. HIDDEN is in the body by its length, after it by its coding, or the other way round."""
    for number, (coding, order, shape) in enumerate(product(CODINGS, (0, 1), ("by length", "by coding"))):
        # Not a valid coding for any reader, so what follows the length is a request of its own.
        if coding.startswith(b"Transfer_") and shape == "by coding":
            continue
        if shape == "by length":
            body = b"0\r\n\r\n" + HIDDEN
            length = len(body)
        else:
            # The length covers only the first chunk's size line.
            part = HIDDEN + b"X: "
            body = chunked(part)
            length = len(b"%x\r\n" % len(part))
        lines = [b"Content-Length: %d" % length, coding]
        lines = lines[::-1] if order else lines
        yield Case(f"coding {number // 4}, order {order}, {shape}", head(METHODS[number % 2], *lines) + body)
    # Only the coding: a reader that overlooks it sees no body.
    for number, (coding, method) in enumerate(product(CODINGS, (b"POST", b"GET"))):
        yield Case(f"coding {number // 2} alone, {method.decode()}", head(method, coding) + chunked(b"x=", HIDDEN))


def lengths() -> Iterator[Case]:
    """Lengths that can be read in two ways, alone and beside one that can't."""
    for number, (length, beside, method) in enumerate(product(LENGTHS, ("alone", "before", "after"), (b"POST", b"GET"))):
        written = b"Content-Length: " + length.replace(b"%d", b"%d" % len(HIDDEN))
        plain = b"Content-Length: 0"
        lines = {"alone": [written], "before": [written, plain], "after": [plain, written]}[beside]
        # With a single plain length, HIDDEN is the body.
        name = f"length {number // 6} {beside}, {method.decode()}"
        yield Case(name, head(method, *lines) + HIDDEN)


def chunks() -> Iterator[Case]:
    """Sizes, ends and trailers of chunks. HIDDEN is inside a chunk or, if the chunk is read as shorter or longer, not."""
    coding = b"Transfer-Encoding: chunked"
    for number, (size, method) in enumerate(product(CHUNK_SIZES, METHODS[:3])):
        line = size % len(HIDDEN) if b"%x" in size else size
        yield Case(f"chunk size {number // 3}, {method.decode()}", head(method, coding) + line + b"\r\n" + HIDDEN + b"\r\n0\r\n\r\n")
    for number, (after_size, after_data) in enumerate(product(CHUNK_ENDS, CHUNK_ENDS)):
        text = b"%x%s%s%s0\r\n\r\n" % (len(HIDDEN), after_size, HIDDEN, after_data)
        # A size line without an end isn't a request; without a line end after the data, the rest may be anything.
        yield Case(f"chunk ends {number}", head(b"POST", coding) + text)
    for number, (last, method) in enumerate(product(LAST_CHUNKS, (b"POST", b"DELETE"))):
        yield Case(f"last chunk {number // 2}, {method.decode()}", head(method, coding) + b"3\r\na=b\r\n" + last)


def heads() -> Iterator[Case]:
    """Request lines, versions, odd headers, and each way to end a line."""
    for number, line in enumerate(REQUEST_LINES):
        yield Case(f"request line {number}", line + b"\r\n" + HOST + b"\r\n")
        yield Case(f"request line {number} with a body", line + b"\r\n" + HOST + b"Content-Length: %d\r\n\r\n" % len(HIDDEN) + HIDDEN)
    for number, (line, method) in enumerate(product(HEADERS, (b"GET", b"POST"))):
        yield Case(f"header {number // 2}, {method.decode()}", head(method, b"Content-Length: %d" % len(HIDDEN), line) + HIDDEN)
    for number, (version, coding) in enumerate(product((b"HTTP/1.0", b"HTTP/0.9", b"HTTP/1.1"), (b"chunked", b"identity", b"gzip"))):
        lines = [b"Transfer-Encoding: " + coding, b"Content-Length: 5", b"Connection: keep-alive"]
        yield Case(f"version and coding {number}", head(b"POST", *lines, version=version) + b"0\r\n\r\n" + HIDDEN)
    for number, (between, end) in enumerate(product((b"\r\n", b"\n", b"\r", b"\n\r", b"\r\r\n"), (b"\r\n\r\n", b"\n\n", b"\r\r", b"\n\r\n", b"\r\n\n", b"\r\n\r"))):
        block = between.join([b"POST ATTACK HTTP/1.1", b"Host: 127.0.0.1", b"Content-Length: %d" % len(HIDDEN)])
        yield Case(f"line ends {number}", block + end + HIDDEN)
    for number, before in enumerate((b"\r\n", b"\n", b"\r\n\r\n", b"\r", b" ", b"\0", b"\xef\xbb\xbf", b"\r\n" * 40, b"0\r\n\r\n", b"X\r\n")):
        yield Case(f"before the request {number}", before + head(b"GET"))


def path(mark: str, number: int) -> str:
    """A path that is as long as a mark."""
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    return f"/{mark}{digits[number // 1296]}{digits[number // 36 % 36]}{digits[number % 36]}"


def corpus() -> list[Case]:
    """All of it, without repeats."""
    by_text = {case.text: case for part in (conflicts, lengths, chunks, heads) for case in part()}
    return list(by_text.values())
