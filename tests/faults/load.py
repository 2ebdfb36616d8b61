"""Sign-ins, sign-outs and feed batches in threads, and a record of everything that was acknowledged, to check it against the service."""

from __future__ import annotations

import itertools
import random
import threading
from collections import Counter
from collections.abc import Callable

from service import NO_ANSWER, Answer, Bot, Client, Failed, Provider, Service, guild

GUILDS = [number << 22 for number in (1, 2, 3)]


class Load:
    """Each person signs in once, so that no session ends because of another. A batch gives all guilds one new name, so a half of one shows."""

    def __init__(self, service: Service, threads: int = 3) -> None:
        self.service, self.threads = service, threads
        self.people = itertools.count(1)
        self.lock = threading.Lock()
        # Acknowledged sessions and sign-outs. Requests without a response are in neither.
        self.sessions: list[str] = []
        self.ended: list[str] = []
        self.bot = Bot(service)
        self.acknowledged_batch = self.sent_batch = 0
        # Responses other than 200, and requests without a response.
        self.refused: Counter[str] = Counter()
        self.unanswered = 0
        self.acknowledged = 0
        self.running: list[threading.Thread] = []
        self.stopping = threading.Event()
        self.watcher = ""

    def prepare(self) -> None:
        """A snapshot, so that events are taken, and a session that sees the guilds."""
        with self.service.client() as client:
            for answer in (self.bot.heartbeat(client), self.bot.snapshot(client, [guild(id, "0") for id in GUILDS]), signed := client.sign_in(0)):
                if answer.status != 200:
                    raise Failed(f"the load can't be prepared: {answer}")
            self.watcher = signed.data["token"]

    def start(self) -> None:
        self.stopping.clear()
        works = [self.sign_in_and_out] * self.threads + [self.feed]
        self.running = [threading.Thread(target=self.repeat, args=[work], daemon=True) for work in works]
        for thread in self.running:
            thread.start()

    def stop(self) -> None:
        self.stopping.set()
        for thread in self.running:
            thread.join(60)
            if thread.is_alive():
                raise Failed("a request has hung for a minute")

    def repeat(self, work: Callable[[Client], None]) -> None:
        client = Client(self.service.url)
        while not self.stopping.is_set():
            try:
                work(client)
            except NO_ANSWER:
                with self.lock:
                    self.unanswered += 1
                # The service is being killed, and nothing listens until the next start.
                self.stopping.wait(0.01)
        client.close()

    def note(self, answer: Answer) -> bool:
        with self.lock:
            if answer.status == 200:
                self.acknowledged += 1
                return True
            self.refused[f"{answer.status} {answer.error}"] += 1
        # Refused clients don't retry at once.
        self.stopping.wait(0.02)
        return False

    def sign_in_and_out(self, client: Client) -> None:
        answer = client.sign_in(next(self.people))
        if not self.note(answer):
            return
        token = answer.data["token"]
        if random.random() < 0.75:
            with self.lock:
                self.sessions.append(token)
        elif self.note(client.call("DELETE", "/auth", {"Token": token})):
            with self.lock:
                self.ended.append(token)

    def feed(self, client: Client) -> None:
        # A batch without a response may have been applied, so it is sent again with the same number.
        self.sent_batch = self.acknowledged_batch + 1
        if self.note(self.bot.events(client, [{"type": "guild", **guild(id, str(self.sent_batch))} for id in GUILDS])):
            self.acknowledged_batch = self.sent_batch

    def check(self, sample: int | None = None) -> int:
        """Everything acknowledged is there, or at least the newest and a sample of the rest; returns how much is not, and says what."""
        lost: list[str] = []
        with self.service.client() as client:
            for tokens, status in ((self.sessions, 200), (self.ended, 401)):
                chosen = tokens if sample is None else tokens[-sample:] + random.sample(tokens, min(sample, len(tokens)))
                for token in dict.fromkeys(chosen):
                    answer = client.get("/me", token)
                    if answer.status != status:
                        lost.append(f"a {'session' if status == 200 else 'sign-out'} was acknowledged, and now: {answer}")
            guilds = client.get("/guilds", self.watcher)
            state = client.call("GET", "/bot/state", {"Authorization": f"Bearer {self.service.key}"})
            if guilds.status != 200 or state.status != 200:
                lost.append(f"the feed can't be read: {guilds} {state}")
                return self.tell(lost)
            names = {entry["name"] for entry in guilds.data}
            if len(guilds.data) != len(GUILDS) or len(names) != 1:
                lost.append(f"a batch is half there: {guilds}")
            elif not self.acknowledged_batch <= int(next(iter(names))) <= self.sent_batch:
                lost.append(f"batch {self.acknowledged_batch} was acknowledged, and the guilds are those of {names}")
            else:
                shown = int(next(iter(names)))
                expected = 1 + shown * len(GUILDS)
                nexts = [entry["next"] for entry in state.data["instances"] if entry["instance"] == self.bot.instance]
                if nexts != [expected]:
                    lost.append(f"the guilds are those of batch {shown}, and the service expects event {nexts}: {state}")
        return self.tell(lost)

    @staticmethod
    def tell(lost: list[str]) -> int:
        for line in lost[:10]:
            print(line, flush=True)
        return len(lost)


def provider() -> Provider:
    return Provider(GUILDS)
