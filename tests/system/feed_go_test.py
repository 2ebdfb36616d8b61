"""`feed_go_test.py SERVICE CLIENT FOLDER`: runs the client of docs/feed.md beside the real service, through outages, to its end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dev_service

BINARY, CLIENT, FOLDER = sys.argv[1], sys.argv[2], Path(sys.argv[3])
# Only a failing test waits this long.
DEADLINE = 300
GUILD = "871203344918732833"


class Service:
    """`bot-companion dev`. It keeps its address; each start may have an empty data folder."""

    def __init__(self) -> None:
        self.listen, self.url, self.key = "127.0.0.1:0", "", ""
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, data: str) -> None:
        said = FOLDER / "dev.json"
        with said.open("wb") as output, (FOLDER / "service.log").open("wb") as log:
            command = [BINARY, "dev", "--json", "--no-limits", "--listen", self.listen, "--data", str(FOLDER / data)]
            self.process = subprocess.Popen(command, stdout=output, stderr=log)
        until("the service starts", lambda: said.read_text().endswith("\n"))
        addresses = json.loads(said.read_text())
        self.url, self.key = addresses["service"], addresses["bot_key"]
        self.listen = self.url.removeprefix("http://")

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def get(self, path: str, **headers: str) -> Any:
        request = urllib.request.Request(self.url + path, headers=headers)
        with urllib.request.urlopen(request, timeout=60) as response:
            return json.load(response)["data"]

    def own_next(self) -> int | None:
        """The number that the service expects from the client."""
        state = self.get("/bot/state", Authorization=f"Bearer {self.key}")
        found = [each["next"] for each in state["instances"] if each["instance"].startswith("go-")]
        assert len(found) < 2, state
        return found[0] if found else None

    def guild_names(self) -> list[str]:
        """What the sandbox's owner sees."""
        return [each["name"] for each in self.get("/guilds", Token=dev_service.sign_in(self.url))]

    def feedback_count(self) -> int:
        return int(self.get("/bot/state", Authorization=f"Bearer {self.key}")["feedback"])

    def said(self) -> list[str]:
        """Five entries, others each time."""
        return [each["feedback"] for each in self.get("/feedback")]


def until(what: str, condition: Callable[[], Any]) -> None:
    end = time.monotonic() + DEADLINE
    last: Any = None
    while time.monotonic() < end:
        try:
            last = condition()
            if last:
                return
        except (OSError, urllib.error.URLError, AssertionError) as error:
            last = error
        time.sleep(0.05)
    raise SystemExit(f"never came true: {what}; last: {last!r}\n{client_log()}\n")


def client_log() -> str:
    file = FOLDER / "client.log"
    return file.read_text() if file.exists() else ""


def feedback(identity: str, text: str, rating: int = 5) -> dict[str, Any]:
    submitter = {"id": "280114907635220483", "username": "owner"}
    return {"type": "feedback", "id": identity, "feedback": text, "rating": rating, "timestamp": int(time.time()), "submitter": submitter}


def test(service: Service, client: subprocess.Popen[bytes]) -> None:
    def report(*events: dict[str, Any]) -> None:
        assert client.stdin is not None
        client.stdin.write("".join(json.dumps(event) + "\n" for event in events).encode())
        client.stdin.flush()

    def passed(what: str) -> None:
        print(f"ok: {what}", flush=True)

    until("the guilds are there", lambda: service.guild_names() == ["Harbour City"])
    assert service.own_next() == 3
    assert service.get("/")["health"]["bot"]["shards"].keys() == {"0"}
    demo_feedback = service.feedback_count()
    passed("a heartbeat, then the guilds")

    renamed = {"type": "guild", "id": GUILD, "name": "Harbour City Roleplay", "owner": "280114907635220483", "members": 413}
    report(renamed, feedback("bad", "Nine of five.", 9), feedback("good", "Runs our whole city."))
    until("the guild is renamed", lambda: service.guild_names() == ["Harbour City Roleplay"])
    until("the feedback is there", lambda: "Runs our whole city." in service.said())
    assert "dropped: " in client_log() and "must be a whole number from 1 to 5" in client_log()
    assert service.feedback_count() == demo_feedback + 1
    passed("events; what is refused is dropped and logged")

    service.kill()
    report(feedback("away", "Said while it was away."))
    until("the client notices the outage", lambda: "/bot/events: " in client_log().split("must be a whole number")[-1])
    service.start("emptied")
    until("what was said meanwhile arrives", lambda: "Said while it was away." in service.said())
    until("the guilds are back", lambda: service.guild_names() == ["Harbour City"])
    assert (service.own_next() or 0) > 2
    passed("a service that was emptied, with an event that waits")

    service.kill()
    service.start("emptied again")
    until("the guilds are back", lambda: service.guild_names() == ["Harbour City"] and service.own_next())
    passed("a service that was emptied, while nothing happens")

    service.kill()
    before = client_log().count("/bot/events: ")
    report(feedback("last", "Last words."))
    # The delays grow, so the client would hardly retry just now by itself.
    until("the client waits for longer", lambda: client_log().count("/bot/events: ") >= before + 4)
    service.start("emptied again")
    client.send_signal(signal.SIGTERM)
    assert client.wait(DEADLINE) == 0, client_log()
    until("the last words are there", lambda: "Last words." in service.said())
    passed("SIGTERM: what waits is sent")


def main() -> None:
    service = Service()
    service.start("data")
    environment = {**os.environ, "COMPANION_URL": service.url, "COMPANION_BOT_KEY": service.key}
    with (FOLDER / "client.log").open("wb") as log:
        client = subprocess.Popen([CLIENT], stdin=subprocess.PIPE, stderr=log, env=environment)
    try:
        test(service, client)
        assert service.key not in client_log()
    finally:
        client.kill()
        client.wait()
        service.kill()


main()
