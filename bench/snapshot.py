"""The client's side of bench/snapshot: makes the lines, uploads them, reads beside, and watches the service's memory."""

import http.client
import json
import subprocess
import sys
import threading
import time
from urllib.parse import urlsplit

from dev_service import sign_in

url, key, service, count, work = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5]
FIRST = 900_000_000_000_000_000


def make_lines(path):
    with open(path, "w", encoding="utf-8", buffering=1 << 20) as lines:
        for index in range(count):
            guild = FIRST + (index << 22)
            role = guild + 1
            staff = ",".join(f'"{guild + 10 + person}":["{role}"]' for person in range(5))
            lines.write(
                f'{{"id":"{guild}","name":"Guild number {index}","icon":null,"owner":"{guild + 7}","members":{index % 5000},'
                f'"setup":true,"linked":false,"grants":{{"{role}":["MOD"]}},"staff":{{{staff}}}}}\n'
            )
        lines.write(f'{{"end":{count}}}\n')


def read_on(token, done, waits):
    connection = http.client.HTTPConnection(urlsplit(url).netloc)
    while not done.is_set():
        began = time.perf_counter()
        connection.request("GET", "/guilds", headers={"Token": token})
        answer = connection.getresponse()
        answer.read()
        waits.append(time.perf_counter() - began)
        if answer.status != 200:
            raise SystemExit(f"GET /guilds answered {answer.status}")
        time.sleep(0.002)


def watch(done, peaks):
    while not done.is_set():
        with open(f"/proc/{service}/status", encoding="utf-8") as status:
            peaks.append(next(int(line.split()[1]) for line in status if line.startswith("VmRSS")))
        time.sleep(0.05)


lines = f"{work}/guilds.ndjson"
make_lines(lines)
token = sign_in(url)
done, waits, peaks = threading.Event(), [], []
beside = [threading.Thread(target=read_on, args=(token, done, waits)), threading.Thread(target=watch, args=(done, peaks))]
for thread in beside:
    thread.start()
began = time.perf_counter()
upload = subprocess.run(
    ["curl", "-sS", "-T", lines, "-H", f"Authorization: Bearer {key}", "-H", "Feed-Instance: bench", "-H", "Feed-Sequence: 2",
     f"{url}/bot/shards/1/0/guilds"],
    check=True, capture_output=True, text=True,
)
took = time.perf_counter() - began
done.set()
for thread in beside:
    thread.join()
answer = json.loads(upload.stdout)
if answer["code"] != 200 or answer["data"]["applied"] != count:
    raise SystemExit(f"the snapshot was not taken: {upload.stdout}")
with open(f"{work}/took", "w", encoding="utf-8") as file:
    file.write(str(took))
waits.sort()
print(f"{count} guilds with 5 staff each in {took:.1f} s: {count / took:.0f} guilds/s")
print(f"memory of the service: {max(peaks) / 1024:.0f} MiB at the most")
print(f"{len(waits)} reads of /guilds beside it: median {waits[len(waits) // 2] * 1000:.2f} ms, slowest {waits[-1] * 1000:.1f} ms")
