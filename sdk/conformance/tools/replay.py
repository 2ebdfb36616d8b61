"""Sends the requests that a scenario expects to a service, and compares the answers."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator

from .files import Json, Scenario, shard_of
from .schema import SNAPSHOT
from .service import Service

LATER = "later"
"""The name of the process that `{"service": "taken"}` speaks of."""


class Mismatch(Exception):
    """The service answers something else."""


class Replay:
    """One scenario against one service."""

    def __init__(self, scenario: Scenario, service: Service) -> None:
        self._scenario = scenario
        self._service = service
        self._count: int = scenario.world["shard_count"]
        self._shards: list[int] = scenario.world["shards"]
        self._guilds = [guild["id"] for guild in scenario.world["guilds"]]
        """Every guild that the scenario has had so far."""
        self._instance = uuid.uuid4().hex
        self._started = time.time()
        self.compared = 0

    def mismatches(self) -> Iterator[str]:
        self._heartbeat()
        for number, step in enumerate(self._scenario.steps, 2):
            try:
                self._do(step)
            except Mismatch as mismatch:
                # The rest would be compared with a service in a different state.
                yield f"line {number}: the service {mismatch}"
                return

    def _do(self, step: Json) -> None:
        if "world" in step:
            self._count = step["world"].get("shard_count", self._count)
            self._shards = step["world"].get("shards", self._shards)
            self._heartbeat()
        elif step.get("bot") == "guild_here" and step["guild"]["id"] not in self._guilds:
            self._guilds.append(step["guild"]["id"])
        elif "service" in step:
            self._change_service(step)
        elif "expect" in step and step["expect"] not in ("nothing", "PUT /bot/heartbeat"):
            self._compare(step)

    # The service's state

    def _change_service(self, step: Json) -> None:
        if step["service"] == "forget":
            self._service.renew()
            # The process sends a heartbeat before its snapshot.
            self._heartbeat()
        elif step["service"] == "expects":
            _, data = self._events(self._instance, 1, [])
            missing = step["next"] - data["next"]
            self._events(self._instance, data["next"], [{"type": "subscription_gone", "userid": "1"}] * missing)
        elif step["service"] == "taken":
            time.sleep(0.01)  # it is seen later than this process
            self._heartbeat(LATER, [step["shard"]])
            path = f"/bot/shards/{self._count}/{step['shard']}/guilds"
            self._call("PUT", path, LATER, 1, [{"end": 0}])
        elif step["service"] == "left":
            self._heartbeat(LATER, [], leaving=True)

    def _heartbeat(self, name: str = "", shards: list[int] | None = None, leaving: bool = False) -> None:
        started = time.time() if name else self._started
        own = [{"id": shard} for shard in (self._shards if shards is None else shards)]
        beat = {"instance": name or self._instance, "started_at": started, "memory": 1, "shard_count": self._count, "shards": own, "leaving": leaving}
        status, data = self._service.call("PUT", "/bot/heartbeat", {}, json.dumps(beat).encode())
        if status != 200:
            raise Mismatch(f"refuses a heartbeat with {status} {data}")

    # Requests

    def _call(
        self, method: str, path: str, instance: str, sequence: int, lines: list[Json], after: int | None = None
    ) -> tuple[int, Json]:
        headers = {"Feed-Instance": instance, "Feed-Sequence": str(sequence)}
        if after is not None:
            headers["Feed-After"] = str(after)
        body = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
        return self._service.call(method, path, headers, body.encode())

    def _events(self, instance: str, sequence: int, lines: list[Json]) -> tuple[int, Json]:
        return self._call("POST", "/bot/events", instance, sequence, lines)

    def _lines(self, step: Json) -> list[Json]:
        if "lines" in step:
            return list(step["lines"])
        match = SNAPSHOT.fullmatch(step["expect"])
        shard = int(match[2]) if match else 0
        own = [guild for guild in self._guilds if shard_of(guild, self._count) == shard]
        return [{"id": guild, "name": "any", "owner": "10"} for guild in own[: step["count"]]]

    def _compare(self, step: Json) -> None:
        answer = step.get("answer")
        if "fiction" in step or answer in ("hang", "garbage"):
            return
        if isinstance(answer, dict) and answer["status"] not in (200, 409, 422):
            return
        method, path = step["expect"].split(" ")
        lines = self._lines(step)
        sent = lines if method == "POST" else [*lines, {"end": len(lines)}]
        after = step.get("after", step["sequence"] - 1) if method == "PUT" else None
        status, data = self._call(method, path, self._instance, step["sequence"], sent, after)
        self.compared += 1
        if isinstance(answer, dict):
            wanted_status, wanted = answer["status"], answer.get("data", {})
        else:
            # Acknowledged, even if the response gets lost.
            wanted_status = 200
            wanted = {"next": step["sequence"] + (len(lines) if method == "POST" else 0)}
        found = {name: data.get(name) for name in wanted}
        if (status, found) != (wanted_status, wanted):
            raise Mismatch(f"answers {status} {data}, and the scenario says {wanted_status} {wanted}")
        if answer is None and data["applied"] + data["ignored"] != len(lines):
            raise Mismatch(f"applied {data['applied']} and ignored {data['ignored']} of {len(lines)} lines")
