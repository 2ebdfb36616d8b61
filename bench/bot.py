"""A bot that feeds a service under measurement: its guilds, its team, and a heartbeat for as long as the measurement lasts."""

import json
import ssl
import threading
import time
import urllib.request

# Those of `instant-provider`.
FIRST_GUILD = 1_000_000
GUILDS = 200
OWNER = "280114907635220483"
HEARTBEAT_SECONDS = 15
# The certificate was made for the measurement.
UNCHECKED = ssl._create_unverified_context()


def guild(number: int) -> dict:
    id = str(FIRST_GUILD + number)
    role, staff = "900000000000000001", {OWNER: ["900000000000000001"]}
    known = {"id": id, "name": f"Guild {id}", "icon": None, "owner": OWNER, "members": 400 + number}
    return {**known, "setup": True, "linked": False, "grants": {role: ["MOD"]}, "staff": staff}


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
    """Entry `number`, a line as the feed takes it. All are equally long, so that every draw is."""
    return (
        f'{{"id":"{number:010}","feedback":"Entry {number:010}: it runs our whole city, and everybody found their way around.",'
        f'"rating":{4 + number % 2},"timestamp":1767225600,'
        f'"submitter":{{"id":"{300_000_000_000_000_000 + number}","username":"person{number:010}"}}}}\n'
    )


class Bot:
    def __init__(self, url: str, key: str) -> None:
        self.url, self.key, self.started = url, key, int(time.time())
        self.over = threading.Event()

    def send(self, method: str, path: str, body: bytes) -> None:
        headers = {"Authorization": f"Bearer {self.key}", "Feed-Instance": f"bench-{self.started}", "Feed-Sequence": "1"}
        request = urllib.request.Request(f"{self.url}{path}", method=method, data=body, headers=headers)
        with urllib.request.urlopen(request, timeout=60, context=UNCHECKED) as answer:
            answer.read()

    def heartbeat(self) -> None:
        shard = {"id": 0, "sent_ms_ago": 2250, "acknowledged_ms_ago": 2190, "latency": 60}
        process = {"instance": f"bench-{self.started}", "started_at": self.started, "memory": 91_226_112}
        self.send("PUT", "/bot/heartbeat", json.dumps({**process, "shard_count": 1, "shards": [shard]}).encode())

    def report(self) -> None:
        self.heartbeat()
        lines = [*(guild(number) for number in range(GUILDS)), {"end": GUILDS}]
        self.send("PUT", "/bot/shards/1/0/guilds", "".join(f"{json.dumps(line)}\n" for line in lines).encode())

    def live(self) -> None:
        """Sends heartbeats until `over` is set."""

        def beat() -> None:
            while not self.over.wait(HEARTBEAT_SECONDS):
                self.heartbeat()

        threading.Thread(target=beat, daemon=True).start()
