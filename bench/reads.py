"""Compares the service's reads with reference servers and its peers, and prints tables. `bench/reads` starts it."""

import gzip
import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import urllib.parse
from dataclasses import dataclass, field
from pathlib import Path

import bot
import load
from contenders import Nginx, Server, peer, recorded, stop_all
from markdown import print_table, verdict
from service import Service, clean_up_when_stopped, code, instant_provider, say

QUICK = "--quick" in sys.argv
ROUNDS = int(os.environ.get("BENCH_ROUNDS", 1 if QUICK else 5))
SECONDS = int(os.environ.get("BENCH_SECONDS", 1 if QUICK else 3))
ENTRIES = 1_000
MANY_ENTRIES = int(os.environ.get("BENCH_FEEDBACK", 100_000 if QUICK else 10_000_000))
GUILDS = (10,) if QUICK else (1, 10, 200)
COLD_READS = 200 if QUICK else 2_000
PEERS = tuple(os.environ.get("BENCH_PEERS", "fastify fastapi go").split())
# Another build of the service. If set, only the two builds and bare hyper are measured.
BASELINE = os.environ.get("BENCH_BASELINE")
FAST = ("service", "bare-hyper", "floor", "nginx")
# The fixed rate, as a share of the slowest fast server's peak. The load generator needs CPU too, on the same cores.
SHARE = float(os.environ.get("BENCH_SHARE", 0.25))

# From the issue that asked for this benchmark.
GOAL_BARE, GOAL_FLOOR, GOAL_NGINX, GOAL_TLS, GOAL_GROWTH = 1.15, 1.6, 1.0, 1.5, 1.1
GOAL_PEERS = {"fastify": 4.0, "fastapi": 12.0}


@dataclass(frozen=True)
class Recording:
    """A read, one response to it, and the path where nginx serves that response."""

    label: str
    path: str
    headers: dict[str, str]
    head: bytes
    body: bytes
    static: str
    is_compressed: bool


@dataclass
class Contender:
    name: str
    server: Server | Service
    url: str
    headers: dict[str, str]
    rounds: list[load.Full] = field(default_factory=list)
    latencies: load.Latencies | None = None

    @property
    def rate(self) -> float:
        return statistics.median(one.rate for one in self.rounds)

    @property
    def cpu(self) -> float:
        return statistics.median(one.cpu for one in self.rounds)


@dataclass
class Row:
    """One read, and every server that answers it."""

    label: str
    size: int
    contenders: dict[str, Contender]

    def add(self, name: str, server: Server | Service, url: str, headers: dict[str, str]) -> None:
        self.contenders[name] = Contender(name, server, url, headers)

    def measure(self, how=load.full) -> None:
        """In turns, so that other load on the machine affects all of them."""
        if not QUICK:
            for one in self.contenders.values():
                how(one.server.cpu, one.url, 1, one.headers)
        for number in range(ROUNDS):
            for one in self.contenders.values():
                one.rounds.append(how(one.server.cpu, one.url, SECONDS, one.headers))
                done = one.rounds[-1]
                say(f"{self.label}, round {number + 1}: {one.name} {done.rate:.0f}/s, {done.cpu:.2f} µs")

    def measure_latencies(self) -> None:
        common = min(one.rate for name, one in self.contenders.items() if name in FAST) * SHARE
        for name, one in self.contenders.items():
            if QUICK and name not in ("service", "nginx"):
                continue
            rate = common if name not in PEERS else min(common, one.rate * 0.5)
            one.latencies = load.fixed(one.url, rate, SECONDS, one.headers)

    def cpu_ratio(self, name: str, to: str) -> float:
        pairs = zip(self.contenders[name].rounds, self.contenders[to].rounds, strict=True)
        return statistics.median(one.cpu / other.cpu for one, other in pairs)

    def rate_ratio(self, name: str, to: str) -> float:
        pairs = zip(self.contenders[name].rounds, self.contenders[to].rounds, strict=True)
        return statistics.median(one.rate / other.rate for one, other in pairs)


class Reader:
    """Reads from one server over one connection."""

    def __init__(self, url: str) -> None:
        parts = urllib.parse.urlsplit(url)
        self.connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)

    def read(self, path: str, headers: dict[str, str]) -> tuple[bytes, bytes]:
        """Head and body. Python's client doesn't ask for compression unless a header does."""
        self.connection.putrequest("GET", path, skip_accept_encoding=True)
        for name, value in headers.items():
            self.connection.putheader(name, value)
        self.connection.endheaders()
        answer = self.connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            sys.exit(f"{path} was answered with {answer.status}: {body[:500].decode(errors='replace')}")
        lines = "".join(f"{name}: {value}\r\n" for name, value in answer.getheaders())
        return f"HTTP/1.1 200 OK\r\n{lines}\r\n".encode(), body

    def data(self, path: str, headers: dict[str, str]):
        return json.loads(self.read(path, headers)[1])["data"]


def all_feedback(reader: Reader) -> list[dict]:
    """Every entry, drawn until none is missing."""
    known: dict[str, dict] = {}
    for _ in range(50 * ENTRIES):
        known |= {entry["feedback"]: entry for entry in reader.data("/feedback", {})}
        if len(known) == ENTRIES:
            return list(known.values())
    sys.exit(f"/feedback showed {len(known)} of {ENTRIES} entries")


def shape(value):
    """The shape that two responses must have in common."""
    if isinstance(value, dict):
        return {name: shape(part) for name, part in value.items()}
    if isinstance(value, list):
        return [shape(part) for part in value[:1]]
    return "number" if isinstance(value, (int, float)) and not isinstance(value, bool) else type(value).__name__


def check_same(server: Server, path: str, headers: dict[str, str], body: bytes) -> None:
    """A peer that sends something else, or much less, would win unfairly."""
    theirs = Reader(server.url).read(path, headers)[1]
    if shape(json.loads(theirs)) != shape(json.loads(body)) or not 0.9 < len(theirs) / len(body) < 1.1:
        sys.exit(f"{server.name} answers {path} with\n{theirs[:500]!r}\ninstead of\n{body[:500]!r}")


def certificate(folder: Path) -> tuple[Path, Path]:
    chain, key = folder / "certificate.pem", folder / "certificate.key"
    names = ["-subj", "/CN=bench", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(chain)]
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    subprocess.run(["openssl", "req", "-x509", *curve, *names], check=True, capture_output=True, timeout=60)
    return chain, key


def goal(value: float, limit: float, at_least: bool = False) -> str:
    return f"{value:.2f} (goal {limit:g}, {verdict(value >= limit if at_least else value <= limit)})"


def times(one: Contender) -> list[str]:
    if one.latencies is None:
        return [""] * 4
    found = one.latencies
    return [f"{found.rate:,.0f}", f"{found.p50:.2f}", f"{found.p99:.2f}", f"{found.p999:.2f}"]


class Reads:
    def __init__(self, folder: Path, provider: str) -> None:
        self.folder, self.provider = folder, provider
        # If root starts nginx, its workers run as another user.
        folder.chmod(0o755)
        self.certificate = certificate(folder)
        self.nginx = Nginx(folder, self.certificate)
        self.services: list[Service] = []
        self.beats: dict[Service, bot.Heartbeats] = {}
        self.small = self.service("small", ENTRIES)
        self.tokens = self.sign_in(self.small)

    def service(self, name: str, entries: int, binary: str | None = None) -> Service:
        """A running service with this much feedback."""
        made = Service(self.folder / name, self.provider, binary=binary or os.environ["BOT_COMPANION"])
        bot.import_team(made)
        say(f"{name}: importing {entries:,} feedback entries")
        took = bot.import_feedback(made, entries)
        self.imported = f"{entries:,} entries were imported in {took:.0f} s"
        self.services.append(made)
        self.start(made)
        bot.report_guilds(made)
        return made

    def start(self, service: Service, scheme: str = "http") -> str:
        """The service's URL."""
        service.start()
        url = f"{scheme}://{service.host}:{service.port}"
        self.beats[service] = bot.Heartbeats(service, url)
        return url

    def stop(self, service: Service) -> None:
        if service in self.beats:
            self.beats.pop(service).stop()
        service.stop()

    def stop_all(self) -> None:
        for service in self.services:
            self.stop(service)
        stop_all()

    @staticmethod
    def sign_in(service: Service) -> dict[int, str]:
        """Signs in one user for each number of guilds."""
        return dict(zip(GUILDS, service.sign_in(*(code(7 + count, count) for count in GUILDS)), strict=True))

    def reads(self) -> list[tuple[str, str, dict[str, str]]]:
        """Label, path and headers of each read."""
        public = [(f"`{path}`", path, {}) for path in ("/", "/team", "/feedback")]
        return public + [(f"`/guilds`, {count}", "/guilds", {"Token": token}) for count, token in self.tokens.items()]

    def record(self) -> list[Recording]:
        reader, found = Reader(self.small.url), []
        for label, path, headers in self.reads():
            if path == "/guilds" and len(reader.data(path, headers)) not in self.tokens:
                sys.exit("the user does not see all of their guilds")
            head, body = reader.read(path, headers)
            packed = reader.read(path, headers | {"Accept-Encoding": "gzip"})
            is_packed = b"content-encoding: gzip" in packed[0].lower()
            if is_packed and gzip.decompress(packed[1]) != body:
                sys.exit(f"{path} has a different body when compressed")
            static = self.nginx.add(head, body, packed[1] if is_packed else None)
            found.append(Recording(label, path, headers, head, body, static, is_packed))
        return found

    def warm(self, recordings: list[Recording]) -> list[Row]:
        """The reads with everything in memory, on every server."""
        reader = Reader(self.small.url)
        sessions = {token: {"guilds": reader.data("/guilds", {"Token": token})} for token in self.tokens.values()}
        data = {"status": reader.data("/", {}), "team": reader.data("/team", {}), "sessions": sessions}
        file = self.folder / "data.json"
        file.write_text(json.dumps(data | {"feedback": all_feedback(reader)}))
        peers = [peer(name, self.folder, file) for name in PEERS]
        # JIT compilers need time to warm up, even in a quick run.
        for server in peers:
            load.full(server.cpu, f"{server.url}/team", 1, {})
        large = self.service("large", MANY_ENTRIES)
        rows = []
        for one in recordings:
            path, headers = one.path, one.headers
            limits = [recorded(name, self.folder, one.head, one.body) for name in ("bare-hyper", "floor")]
            row = Row(one.label, len(one.body), {})
            row.add("service", self.small, f"{self.small.url}{path}", headers)
            if path == "/feedback":
                row.add("service-large", large, f"{large.url}{path}", headers)
            for server in limits:
                row.add(server.name, server, f"{server.url}{path}", headers)
            row.add("nginx", self.nginx.server, f"{self.nginx.url}{one.static}", headers)
            for server in peers:
                check_same(server, path, headers, one.body)
                row.add(server.name, server, f"{server.url}{path}", headers)
            row.measure()
            row.measure_latencies()
            rows.append(row)
            for server in limits:
                server.stop()
        for server in peers:
            server.stop()
        self.stop(large)
        return rows

    def beside_baseline(self, recordings: list[Recording]) -> list[Row]:
        other = self.service("baseline", ENTRIES, BASELINE)
        tokens = self.sign_in(other)
        rows = []
        for one in recordings:
            bare = recorded("bare-hyper", self.folder, one.head, one.body)
            count = next((count for count, token in self.tokens.items() if one.headers.get("Token") == token), None)
            row = Row(one.label, len(one.body), {})
            row.add("service", self.small, f"{self.small.url}{one.path}", one.headers)
            row.add("baseline", other, f"{other.url}{one.path}", {"Token": tokens[count]} if count else {})
            row.add(bare.name, bare, f"{bare.url}{one.path}", one.headers)
            row.measure()
            rows.append(row)
            bare.stop()
        return rows

    def beside_nginx(
        self, recordings: list[Recording], name: str, how, base: str, static_base: str, more: dict[str, str]
    ) -> list[Row]:
        """The reads with another protocol or encoding: the service and nginx only."""
        rows = []
        for one in recordings:
            if one.path == "/feedback" or one.label == "`/guilds`, 1" or (QUICK and one.path != "/guilds"):
                continue
            row = Row(f"{one.label}, {name}", len(one.body), {})
            row.add("service", self.small, f"{base}{one.path}", one.headers | more)
            row.add("nginx", self.nginx.server, f"{static_base}{one.static}", one.headers | more)
            row.measure(how)
            rows.append(row)
        return rows

    def cold(self) -> tuple[float, float]:
        """CPU of each user's first and second `/guilds` after a restart of the service."""
        people = self.small.sign_in(*(code(1000 + number, 10) for number in range(COLD_READS)))
        self.stop(self.small)
        reader, costs = Reader(self.start(self.small)), []
        reader.read("/team", {})
        for _ in range(2):
            before = self.small.cpu()
            for token in people:
                reader.read("/guilds", {"Token": token})
            costs.append((self.small.cpu() - before) * 1e6 / COLD_READS)
        return costs[0], costs[1]

    def start_with_tls(self) -> str:
        self.stop(self.small)
        chain, key = self.certificate
        self.small.environment |= {"COMPANION_TLS_CERT": str(chain), "COMPANION_TLS_KEY": str(key)}
        return self.start(self.small, "https")


def print_warm(rows: list[Row]) -> None:
    lines = []
    for row in rows:
        for name in ("service", "service-large"):
            if name in row.contenders:
                one = row.contenders[name]
                entries = f", {MANY_ENTRIES if name == 'service-large' else ENTRIES:,} entries"
                lines.append([
                    row.label + (entries if "feedback" in row.label else ""),
                    f"{row.size:,} B",
                    f"{one.cpu:.2f}",
                    goal(row.cpu_ratio(name, "bare-hyper"), GOAL_BARE),
                    goal(row.cpu_ratio(name, "floor"), GOAL_FLOOR),
                    f"{one.rate:,.0f}",
                    goal(row.rate_ratio(name, "nginx"), GOAL_NGINX, at_least=True),
                    *times(one),
                ])  # fmt: skip
    heads = ["read", "body", "µs CPU", "÷ bare hyper", "÷ floor", "requests/s", "÷ nginx", "at requests/s", "p50 ms", "p99 ms", "p99.9 ms"]
    print_table(heads, lines)
    for row in rows:
        if "service-large" in row.contenders:
            ratio = row.cpu_ratio("service-large", "service")
            print(f"`/feedback` with {MANY_ENTRIES:,} entries ÷ with {ENTRIES:,}, CPU: {goal(ratio, GOAL_GROWTH)}.\n")


def print_baseline(rows: list[Row]) -> None:
    lines = []
    for row in rows:
        costs = [f"{row.contenders[name].cpu:.2f}" for name in ("service", "baseline", "bare-hyper")]
        ratios = [f"{row.cpu_ratio('service', name):.3f}" for name in ("baseline", "bare-hyper")]
        lines.append([row.label, *costs, *ratios, f"{row.rate_ratio('service', 'baseline'):.3f}"])
    heads = ["read", "service, µs CPU", "baseline", "bare hyper", "service ÷ baseline", "service ÷ bare hyper", "requests/s ÷ baseline"]
    print_table(heads, lines)


def print_peers(rows: list[Row]) -> None:
    print("CPU of the peers, as a multiple of ours:\n")
    lines = []
    for row in rows:
        multiples = {name: row.cpu_ratio(name, "service") for name in PEERS}
        shown = [goal(value, GOAL_PEERS[name], True) if name in GOAL_PEERS else f"{value:.2f}" for name, value in multiples.items()]
        lines.append([row.label, *shown])
    print_table(["read", *(f"{name} ÷ ours" for name in PEERS)], lines)
    print("All figures:\n")
    lines = []
    for row in rows:
        for name, one in row.contenders.items():
            lines.append([row.label, name, f"{one.cpu:.2f}", f"{one.rate:,.0f}", *times(one)])
    print_table(["read", "server", "µs CPU", "requests/s", "at requests/s", "p50 ms", "p99 ms", "p99.9 ms"], lines)


def print_beside_nginx(rows: list[Row]) -> None:
    lines = []
    for row in rows:
        ours, theirs = row.contenders["service"], row.contenders["nginx"]
        cpu, rate = row.cpu_ratio("service", "nginx"), row.rate_ratio("service", "nginx")
        shown = goal(cpu, GOAL_TLS) if "TLS" in row.label else f"{cpu:.2f}"
        lines.append([row.label, f"{ours.cpu:.2f}", f"{theirs.cpu:.2f}", shown, f"{ours.rate:,.0f}", f"{theirs.rate:,.0f}", f"{rate:.2f}"])
    heads = ["read", "ours, µs CPU", "nginx, µs CPU", "ours ÷ nginx", "ours, requests/s", "nginx, requests/s", "ours ÷ nginx"]
    print_table(heads, lines)


def main() -> None:
    clean_up_when_stopped()
    with tempfile.TemporaryDirectory(prefix="bench-reads-") as name, instant_provider() as provider:
        reads = Reads(Path(name), provider)
        try:
            measure(reads)
        finally:
            reads.stop_all()


def measure(reads: Reads) -> None:
    recordings = reads.record()
    if BASELINE:
        print_baseline(reads.beside_baseline(recordings))
        return
    reads.nginx.start()
    rows = reads.warm(recordings)
    print(
        f"Full load from `wrk -t1 -c{load.CONNECTIONS} -d{SECONDS}s`. Servers take turns for {ROUNDS} round(s); figures and ratios are medians. "
        "CPU is the user and system time of all of a server's processes, divided by its requests. Latencies are at a fixed rate, from `oha` with "
        f"latency correction: {SHARE:.0%} of the peak of the slowest among the service, bare hyper, the floor and nginx; for a peer too slow for that, "
        "half of its own peak. Bare hyper and the floor send the exact bytes of one of our responses; nginx serves the body as a file with the "
        "same headers. Peers keep all data in memory, with one process (Go: thread) per core. Our rate limits are on but never reached. "
        f"{reads.imported}.\n"
    )
    print_warm(rows)
    if PEERS:
        print_peers(rows)
    url, nginx = reads.small.url, reads.nginx
    print("Compared with nginx: compressed, with TLS (1.3, AES-256-GCM, the same certificate), and with HTTP/2 (only with TLS; load from `h2load`):\n")
    packed = [one for one in recordings if one.is_compressed]
    rows = reads.beside_nginx(packed, "gzip", load.full, url, nginx.url, {"Accept-Encoding": "gzip"})
    first, second = reads.cold()
    url = reads.start_with_tls()
    rows += reads.beside_nginx(recordings, "TLS", load.full, url, nginx.tls, {})
    rows += reads.beside_nginx(recordings, "TLS and HTTP/2", load.full_http2, url, nginx.tls, {})
    print_beside_nginx(rows)
    print(
        f"Cold: after a restart, each of {COLD_READS:,} users with 10 guilds reads `/guilds`. The first read costs {first:.0f} µs of CPU, the "
        f"second {second:.0f} µs (one client, one request at a time): a ratio of {first / second:.1f}."
    )


main()
