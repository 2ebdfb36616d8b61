"""The data behind the measured reads: guilds, a team, feedback, and a bot that stays online."""

import json
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import feed
from service import Service

HEARTBEAT_SECONDS = 15
# The certificate was made for the measurement.
UNCHECKED = ssl._create_unverified_context()


def team() -> list[dict]:
    titles = ("Founder", "Manager", "Developer", "Support")
    return [
        {
            "discord_id": str(280114907635220483 + number),
            "username": f"member{number}",
            "role": titles[number // 2],
            "color": "#E0A030",
            "category": "direction" if number < 4 else "support",
            "position": number,
            "permissions": [],
        }
        for number in range(8)
    ]


def feedback(number: int) -> str:
    """An entry. All have the same length, so every draw does too."""
    return (
        f'{{"id":"{number:010}","feedback":"Entry {number:010}: it runs our whole city, and everybody found their way around.",'
        f'"rating":{4 + number % 2},"timestamp":1767225600,'
        f'"submitter":{{"id":"{300_000_000_000_000_000 + number}","username":"person{number:010}"}}}}\n'
    )


def import_team(service: Service) -> None:
    file = service.database.parent / "team.json"
    file.write_text(json.dumps({"members": team()}))
    _import(service, "team", str(file), [])


def import_feedback(service: Service, count: int) -> float:
    """Returns how many seconds it took. The entries go through a pipe, because a file with 10 million would take 2 GB."""
    began = time.monotonic()
    thousands = range(0, count, 1000)
    _import(service, "feedback", "/dev/stdin", ("".join(map(feedback, range(first, min(first + 1000, count)))) for first in thousands))
    return time.monotonic() - began


def _import(service: Service, what: str, file: str, parts) -> None:
    command = [service.binary, what, "import", file]
    process = subprocess.Popen(
        command, env=service.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    for part in parts:
        process.stdin.write(part)
    said, _ = process.communicate()
    if process.returncode != 0:
        sys.exit(f"the {what} was not imported: {said}")


class Heartbeats:
    """Sends heartbeats until it is stopped."""

    def __init__(self, service: Service, url: str) -> None:
        self.url, self.key, self.started = f"{url}/bot/heartbeat", service.key, int(time.time())
        self.over = threading.Event()
        self.send()
        self.thread = threading.Thread(target=self.go_on, daemon=True)
        self.thread.start()

    def send(self) -> None:
        shard = {"id": 0, "sent_ms_ago": 2250, "acknowledged_ms_ago": 2190, "latency": 60}
        process = {"instance": "bench", "started_at": self.started, "memory": 91_226_112, "shard_count": 1, "shards": [shard]}
        headers = {"Authorization": f"Bearer {self.key}"}
        request = urllib.request.Request(self.url, method="PUT", data=json.dumps(process).encode(), headers=headers)
        with urllib.request.urlopen(request, timeout=60, context=UNCHECKED) as answer:
            answer.read()

    def go_on(self) -> None:
        while not self.over.wait(HEARTBEAT_SECONDS):
            self.send()

    def stop(self) -> None:
        self.over.set()
        self.thread.join()


def report_guilds(service: Service) -> None:
    """The guilds that the provider's users are in."""
    with tempfile.TemporaryDirectory() as folder:
        feed.Bot(service).snapshot(feed.LISTED, Path(folder))
