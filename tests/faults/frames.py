"""HTTP/2 frames by hand, so that they can be wrong, and a connection that sends them."""

from __future__ import annotations

import select
import socket
import ssl
import struct
import time
import urllib.parse

BARRIER = b"barrier!"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS, PADDED = 0x1, 0x1, 0x4, 0x8


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"", length: int | None = None) -> bytes:
    size = len(payload) if length is None else length
    return struct.pack(">I", size)[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def text(value: bytes) -> bytes:
    """A text in HPACK, not compressed."""
    if len(value) < 127:
        return bytes([len(value)]) + value
    rest, out = len(value) - 127, b"\x7f"
    while rest >= 128:
        out += bytes([rest % 128 + 128])
        rest //= 128
    return out + bytes([rest]) + value


def literal(name: bytes, value: bytes, remember: bool = False) -> bytes:
    return (b"\x40" if remember else b"\x00") + text(name) + text(value)


def request(path: bytes = b"/team", method: bytes = b"GET", *more: bytes) -> bytes:
    """A block of headers."""
    return literal(b":method", method) + b"\x87" + literal(b":path", path) + literal(b":authority", b"127.0.0.1") + b"".join(more)


def open_stream(stream: int, block: bytes | None = None, ends: bool = True) -> bytes:
    return frame(HEADERS, END_HEADERS | (END_STREAM if ends else 0), stream, request() if block is None else block)


def settings(*pairs: tuple[int, int]) -> bytes:
    return frame(SETTINGS, payload=b"".join(struct.pack(">HI", *pair) for pair in pairs))


class Abuser:
    """A connection that has shaken hands. It is not told what to do when the service wants no more: it notes that."""

    def __init__(self, url: str, source: str = "127.0.0.3", reads: bool = True, preface: bytes = PREFACE + settings()) -> None:
        parts = urllib.parse.urlsplit(url)
        offer = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        offer.check_hostname, offer.verify_mode = False, ssl.CERT_NONE
        offer.set_alpn_protocols(["h2"])
        plain = socket.create_connection((str(parts.hostname), parts.port), 30, (source, 0))
        self.socket = offer.wrap_socket(plain)
        self.socket.setblocking(False)
        self.reads, self.closed, self.goaway, self.answers = reads, False, -1, 0
        self.statuses: list[int] = []
        self.resets, self.pongs = 0, 0
        self.unread = b""
        self.send(preface, 30)

    def send(self, data: bytes, patience: float = 5.0) -> bool:
        """Sends all of it and reads in between; False if the service has closed, or takes nothing for this long."""
        view, end = memoryview(data), time.monotonic() + patience
        while view and not self.closed:
            try:
                sent = self.socket.send(view[:65536])
                view, end = view[sent:], time.monotonic() + patience
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                if time.monotonic() > end:
                    return False
                wanted = [self.socket] if self.reads else []
                select.select(wanted, [self.socket], [], 0.1)
            except OSError:
                # The reason for the close may still be readable.
                self.receive()
                self.closed = True
            if self.reads:
                self.receive()
        return not self.closed

    def receive(self) -> None:
        """Reads what is there."""
        while not self.closed:
            try:
                part = self.socket.recv(65536)
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                break
            except OSError:
                part = b""
            if not part:
                self.closed = True
            self.unread += part
        while len(self.unread) >= 9:
            size = int.from_bytes(self.unread[:3], "big")
            if len(self.unread) < 9 + size:
                break
            kind, payload = self.unread[3], self.unread[9 : 9 + size]
            self.unread = self.unread[9 + size :]
            if kind == GOAWAY:
                self.goaway = int.from_bytes(payload[4:8], "big")
            elif kind == PING and payload == BARRIER:
                self.pongs += 1
            elif kind == RST_STREAM:
                self.resets += 1
            elif kind == HEADERS:
                self.answers += 1
                # The service's status is the first field, from the static table or beside it.
                known = {0x88: 200, 0x89: 204, 0x8A: 206, 0x8B: 304, 0x8C: 400, 0x8D: 404, 0x8E: 500}
                self.statuses.append(known.get(payload[0], int(payload[2:5]) if payload[1:2] == b"\x03" else 0))

    def wait(self, patience: float, until_answers: int = 0) -> None:
        """Reads until the service has closed, or that many answers are there."""
        end = time.monotonic() + patience
        while not self.closed and time.monotonic() < end and not (until_answers and self.answers >= until_answers):
            select.select([self.socket], [], [], 0.1)
            self.receive()

    def barrier(self, patience: float = 30.0) -> None:
        """Waits until the service has read everything that was sent, or has closed."""
        self.reads = True
        self.send(frame(PING, payload=BARRIER))
        end = time.monotonic() + patience
        while not self.closed and not self.pongs and time.monotonic() < end:
            select.select([self.socket], [], [], 0.1)
            self.receive()

    def close(self) -> None:
        self.socket.close()
