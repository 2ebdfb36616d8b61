"""Scenarios where the disk accepts no writes for a while."""

from __future__ import annotations

import threading
import time
from collections import Counter
from pathlib import Path

from disk import Disk
from load import Load, provider
from service import NO_ANSWER, Client, Failed, Service, count, eventually, measured

ROUNDS = count("DISK_ROUNDS", 30, 2)
REFUSALS = count("DISK_REFUSALS", 200, 30)
# The first fault lasts longer than the cache may be used without the store, which can still be read.
LONG = count("DISK_SECONDS", 70, 0)


class Reader:
    """Reads what is public without a pause, and counts the answers."""

    def __init__(self, service: Service) -> None:
        self.service, self.answers = service, Counter[str]()
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.read, daemon=True)

    def __enter__(self) -> Reader:
        self.thread.start()
        return self

    def read(self) -> None:
        client = Client(self.service.url)
        while not self.stopping.wait(0.01):
            for path in ("/", "/team", "/feedback", "/stats"):
                try:
                    self.answers[f"{path} {client.get(path).status}"] += 1
                except NO_ANSWER:
                    self.answers[f"{path} without an answer"] += 1
        client.close()

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self.thread.join(60)

    def failed(self) -> dict[str, int]:
        return {answer: number for answer, number in self.answers.items() if not answer.endswith(" 200")}


def scenario(folder: Path, fault: str) -> None:
    refused = 0
    with Disk(folder) as disk, Service(folder, provider(), data=disk.path) as service:
        service.create_key()
        service.start()
        load = Load(service)
        load.prepare()
        with Reader(service) as reader:
            load.start()
            for number in range(ROUNDS):
                before = load.acknowledged
                eventually(lambda: load.acknowledged > before + 20, "writes are acknowledged")
                disk.tell(f"fault {fault}")
                tell_apart(service, load)
                if number == 0:
                    time.sleep(LONG)
                    tell_apart(service, load)
                disk.tell("fault none")
                eventually(lambda: service.health()[0] == 200, "health says that the store is back")
            before = load.acknowledged
            eventually(lambda: load.acknowledged > before + 20, "writes are acknowledged again")
            load.stop()
        strange = {answer: number for answer, number in load.refused.items() if answer != "503 store_unavailable"}
        refused, failed = sum(load.refused.values()), reader.failed()
        lost = load.check()
        # What was acknowledged must also be on the disk.
        service.kill()
        disk.tell("cut all")
        service.start()
        lost += load.check()
        service.stop()
    measured(
        f"{ROUNDS} times, once for {LONG} s; {load.acknowledged} writes acknowledged before, between and after, {refused} refused; {reader.answers.total()} public reads",
        f"{lost} acknowledged writes lost, {sum(failed.values())} public reads failed, {sum(strange.values())} refusals other than 503",
    )
    if lost or failed or strange or load.unanswered:
        raise Failed(f"{lost} lost; reads: {failed}; strange refusals: {strange}; {load.unanswered} requests without an answer")


def tell_apart(service: Service, load: Load) -> None:
    """While the disk takes nothing: writes are refused, sessions are still read, and health says what works and what doesn't."""
    first = load.refused.total()
    eventually(lambda: load.refused.total() > first + REFUSALS, "writes are refused")

    def told() -> bool:
        status, health = service.health()
        return status == 503 and (health["store"]["read"], health["store"]["write"]) == ("ok", "failed")

    eventually(told, "health says that only writes fail")
    with service.client() as client:
        for path in ("/guilds", "/me"):
            answer = client.get(path, load.watcher)
            if answer.status != 200:
                raise Failed(f"{path} of a session that was there before: {answer}")
