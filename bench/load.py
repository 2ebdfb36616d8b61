"""Puts a server under load and returns the figures: `wrk` sends as fast as responses arrive, `oha` at a fixed rate, `h2load` over HTTP/2."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

CONNECTIONS = 64
# HTTP/2 streams on each connection.
STREAMS = 8


@dataclass(frozen=True)
class Full:
    """Full load: requests per second, and microseconds of the server's CPU per request."""

    rate: float
    cpu: float


@dataclass(frozen=True)
class Latencies:
    """Latencies at a fixed rate, in milliseconds. A request that the load generator sends late counts from when it was due."""

    rate: float
    p50: float
    p99: float
    p999: float


def run(command: list[str], patience: float) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=patience)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def options(headers: dict[str, str]) -> list[str]:
    return [part for name, value in headers.items() for part in ("-H", f"{name}: {value}")]


def _measured(cpu: Callable[[], float], load: Callable[[], tuple[float, int]]) -> Full:
    before = cpu()
    rate, requests = load()
    if requests == 0:
        sys.exit("no request was answered; the machine is too busy for such a short measurement")
    return Full(rate, (cpu() - before) * 1e6 / requests)


def full(cpu: Callable[[], float], url: str, seconds: float, headers: dict[str, str]) -> Full:
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds:g}s", "--timeout", "10s", *options(headers), url]

    def load() -> tuple[float, int]:
        said = run(command, seconds + 60)
        if trouble := re.findall(r"Non-2xx.*|Socket errors.*", said):
            sys.exit(f"{url} did not answer every request: {trouble}")
        return float(re.search(r"Requests/sec: +([\d.]+)", said)[1]), int(re.search(r"(\d+) requests in", said)[1])

    return _measured(cpu, load)


def full_http2(cpu: Callable[[], float], url: str, seconds: float, headers: dict[str, str]) -> Full:
    """As many requests in flight as in `full`, on fewer connections."""
    clients = CONNECTIONS // STREAMS
    command = ["h2load", "-t1", f"-c{clients}", f"-m{STREAMS}", "-D", f"{seconds:g}", *options(headers), url]

    def load() -> tuple[float, int]:
        said = run(command, seconds + 60)
        found = re.search(r"(\d+) done, (\d+) succeeded, (\d+) failed", said)
        other = re.search(r"status codes: \d+ 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx", said)
        if found is None or other is None or int(found[3]) or any(int(count) for count in other.groups()):
            sys.exit(f"{url} did not answer every request:\n{said}")
        return float(re.search(r"([\d.]+) req/s", said)[1]), int(found[2])

    return _measured(cpu, load)


def fixed(url: str, rate: float, seconds: float, headers: dict[str, str]) -> Latencies:
    oha = os.environ.get("OHA", "oha")
    command = [oha, "--no-tui", "--output-format", "json", "--latency-correction", "--disable-compression", "-w"]
    command += ["-c", str(CONNECTIONS), "-q", str(round(rate)), "-z", f"{seconds:g}s", *options(headers), url]
    said = json.loads(run(command, seconds + 60))
    answered = said["statusCodeDistribution"]
    if set(answered) != {"200"} or said["errorDistribution"]:
        sys.exit(f"{url} did not answer every request: {answered}, {said['errorDistribution']}")
    percentiles = said["latencyPercentiles"]
    return Latencies(rate, *(percentiles[name] * 1000 for name in ("p50", "p99", "p99.9")))
