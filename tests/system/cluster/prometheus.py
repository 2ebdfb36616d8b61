"""Prometheus with the rules in `deploy`, but in a hurry."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import socket
from pathlib import Path
from typing import Any

import aiohttp

from .testbed import REPOSITORY, Failed, Testbed, end, eventually, last_lines, output

FILES = REPOSITORY / "deploy" / "prometheus"
# What a firing alert is known by: its name, its severity, and the instance, if it is about one.
Alert = tuple[str, str, str]
# What fires has to stay the same for so many evaluations, of which there is one per second.
EVALUATIONS = 3
# A scrape that comes late on a busy machine fires this one, for as many evaluations as three scrapes take.
LATE = "CompanionDown"
LASTING = 12


def hurried(rules: str, silence: int) -> str:
    """The rules with less patience: nothing has to last, windows are 15 seconds, and this many seconds without a word are silence."""
    rules = re.sub(r"^( +for:) .*$", r"\1 0s", rules, flags=re.MULTILINE)
    rules = re.sub(r"\[(5m|15m|1h)\]", "[15s]", rules)
    # One interval is not enough to tell how fast a disk fills.
    rules = rules.replace("predict_linear(companion_disk_free_bytes[15s]", "predict_linear(companion_disk_free_bytes[1h]")
    return re.sub(r"> 90\b", f"> {silence}", rules)


async def promtool(*arguments: str) -> str:
    program = shutil.which("promtool")
    if program is None:
        raise Failed("promtool is missing: install Debian's package `prometheus`")
    return await output(program, *arguments)


class Prometheus:
    def __init__(self, testbed: Testbed) -> None:
        self.folder, self.log = testbed.folder / "prometheus", testbed.folder / "prometheus.log"
        self.address = testbed.address(102)
        self.url = ""
        self.process: asyncio.subprocess.Process | None = None

    async def start(self, targets: list[str], silence: int) -> None:
        """Scrapes these every three seconds."""
        program = shutil.which("prometheus")
        if program is None:
            raise Failed("Prometheus is missing: install Debian's package `prometheus`")
        self.folder.mkdir()
        rules = (FILES / "alerts.yml").read_text()
        (self.folder / "alerts.yml").write_text(hurried(rules, silence))
        configuration = (FILES / "prometheus.yml").read_text()
        # A scrape may take 2 s if the store does not answer.
        configuration = configuration.replace("scrape_interval: 15s", "scrape_interval: 3s").replace("evaluation_interval: 15s", "evaluation_interval: 1s")
        configuration = configuration.replace('["127.0.0.1:9464"]', json.dumps(targets))
        # There is nobody to tell.
        configuration = re.sub(r"^alerting:\n(?: .*\n)+", "", configuration, flags=re.MULTILINE)
        (self.folder / "prometheus.yml").write_text(configuration)
        # The address is this test's own, so nobody else takes the port.
        with socket.socket() as probe:
            probe.bind((self.address, 0))
            port = probe.getsockname()[1]
        self.url = f"http://{self.address}:{port}"
        environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                program, f"--config.file={self.folder}/prometheus.yml", f"--storage.tsdb.path={self.folder}/data",
                f"--web.listen-address={self.address}:{port}", stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, env=environment,
            )  # fmt: skip

        async def ready() -> bool | None:
            if self.process is None or self.process.returncode is not None:
                raise Failed(f"Prometheus has ended:\n{last_lines(self.log)}")
            with contextlib.suppress(aiohttp.ClientError):
                async with aiohttp.ClientSession() as session, session.get(f"{self.url}/-/ready") as response:
                    return response.status == 200 or None
            return None

        await eventually(ready, "Prometheus is ready")

    async def ask(self, path: str, **parameters: str) -> Any:
        async with aiohttp.ClientSession() as session, session.get(f"{self.url}/api/v1/{path}", params=parameters) as response:
            body = await response.json()
        if body["status"] != "success":
            raise Failed(f"Prometheus refuses {parameters}: {body}")
        return body["data"]

    async def values(self, expression: str) -> dict[str, float]:
        """What an expression gives, by instance."""
        data = await self.ask("query", query=expression)
        return {each["metric"].get("instance", ""): float(each["value"][1]) for each in data["result"]}

    async def firing(self) -> tuple[str, set[Alert]]:
        """When the rules were last evaluated, and what fires since then."""
        (group,) = (await self.ask("rules"))["groups"]
        broken = [f"{rule['name']}: {rule['lastError']}" for rule in group["rules"] if rule["health"] == "err"]
        if broken:
            raise Failed(f"rules that cannot be evaluated: {broken}")
        active = [(rule["name"], alert) for rule in group["rules"] for alert in rule["alerts"] if alert["state"] == "firing"]
        firing = {(name, alert["labels"]["severity"], alert["labels"].get("instance", "")) for name, alert in active}
        return str(group["lastEvaluation"]), firing

    async def fires(self, *expected: Alert) -> None:
        """Waits until these fire, and no others, in some evaluations one after the other."""
        evaluations: list[str] = []
        latest: set[Alert] = set()

        async def so() -> bool | None:
            nonlocal latest
            when, latest = await self.firing()
            if latest != set(expected):
                evaluations.clear()
            elif when not in evaluations:
                evaluations.append(when)
            return len(evaluations) == EVALUATIONS or None

        try:
            await eventually(so, "the right alerts fire")
        except Failed as failed:
            raise Failed(f"{failed}\nexpected: {sorted(expected)}\nfiring: {sorted(latest)}") from None

    async def stays_calm(self, evaluations: int) -> None:
        """Sees that nothing critical fires in so many evaluations."""
        seen: set[str] = set()
        # For how many evaluations each has fired that fires now.
        since: dict[Alert, int] = {}

        async def calm() -> bool | None:
            when, firing = await self.firing()
            if when in seen:
                return None
            seen.add(when)
            critical = {alert: since.get(alert, 0) + 1 for alert in firing if alert[1] == "critical"}
            since.clear()
            since.update(critical)
            causeless = sorted(alert for alert, times in critical.items() if alert[0] != LATE or times > LASTING)
            if causeless:
                raise Failed(f"after {len(seen)} evaluations these fire, which nobody has cause for: {causeless}")
            return (len(seen) > evaluations and not critical) or None

        await eventually(calm, f"there are {evaluations} evaluations")

    async def end(self) -> None:
        await end(self.process, signal.SIGTERM)
