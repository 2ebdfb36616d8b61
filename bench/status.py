"""Reports shards, then reads the status page and measures the service's CPU. `bench/status` starts it.

    status.py URL KEY PID SHARDS REQUESTS
"""

import http.client
import json
import sys
import time
import urllib.parse
import urllib.request

from service import cpu

url, key = sys.argv[1:3]
pid, shards, requests = map(int, sys.argv[3:6])


def report() -> None:
    beats = [{"id": id, "sent_ms_ago": 10, "acknowledged_ms_ago": 5, "latency": 40 + id % 50} for id in range(shards)]
    report = {"instance": "bench", "started_at": time.time() - 3600, "memory": 1, "shard_count": shards, "shards": beats}
    headers = {"Authorization": f"Bearer {key}"}
    data = json.dumps(report).encode()
    urllib.request.urlopen(urllib.request.Request(f"{url}/bot/heartbeat", method="PUT", data=data, headers=headers)).close()


def measure(path) -> tuple[float, int]:
    """Milliseconds of CPU per response, and its size in bytes."""
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc)
    before, size = cpu(pid), 0
    for number in range(requests):
        connection.request("GET", path(number), headers={"Accept-Encoding": "gzip"})
        answer = connection.getresponse()
        size = len(answer.read())
        if answer.status != 200:
            raise SystemExit(f"{path(number)} answered {answer.status}")
    return (cpu(pid) - before) * 1e3 / requests, size


report()
for what, path in (("the page", lambda _: "/site/status"), ("lookups", lambda number: f"/site/status?server={(1 + number) << 22}")):
    cost, size = measure(path)
    print(f"{what}: {cost:.2f} ms of CPU each, {size} bytes")
