"""Shows that the alerts and the dashboard of `deploy` are valid, and that a real Prometheus raises and clears the right alerts.

`make test-alerts`; what can be set: `tests/system/cluster/run`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp

from .certificate import Certificate
from .postgres import PORT, USER, Server
from .prometheus import FILES, Prometheus, promtool
from .provider import Provider
from .replicas import BINARY, Replica, service_configuration
from .strangers import Strangers
from .testbed import REPOSITORY, Failed, Testbed, last_lines, output, run

DASHBOARD = REPOSITORY / "deploy" / "grafana" / "dashboard.json"
# Of the whole file system that is to become full, in bytes. The service takes some of it before anything is stored.
DISK = 24 * 1024 * 1024
# After this many seconds without a heartbeat the bot is silent, in place of 90.
SILENCE = 8
# A key of the service, other than the usual one.
NEW_KEY = f"two:{'B' * 42}A="
# A metric's name, in an expression from which strings are cut out.
METRIC = re.compile(r"\b(?:companion|process)_[a-z_]+\b")


def check(holds: bool, what: str) -> None:
    if not holds:
        raise Failed(what)


# What can be seen without a service


async def files() -> set[str]:
    """The files say what they should, and Prometheus takes them. Returns the metrics that they name."""
    await promtool("check", "rules", str(FILES / "alerts.yml"))
    await promtool("check", "config", str(FILES / "prometheus.yml"))
    await promtool("test", "rules", str(FILES / "alerts_test.yml"))
    rules, tests = (FILES / "alerts.yml").read_text(), (FILES / "alerts_test.yml").read_text()
    alerts = set(re.findall(r"^ +- alert: (\w+)$", rules, re.MULTILINE))
    # Each fires in a test, and does not fire in another.
    fires = set(re.findall(r"alertname: (\w+)\n +exp_alerts:\n", tests))
    is_quiet = set(re.findall(r"alertname: (\w+)\n +exp_alerts: \[\]\n", tests))
    check(fires == is_quiet == alerts, f"alerts_test.yml: of {sorted(alerts)}, {sorted(fires)} fire and {sorted(is_quiet)} do not")
    page = (REPOSITORY / "docs" / "alerts.md").read_text()
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    check(set(sections) == alerts, f"docs/alerts.md explains {sorted(sections)}, and there are {sorted(alerts)}")
    for name, text in sections.items():
        for part in ("**Means.**", "**Users see**", "**To do.**"):
            check(part in text, f"docs/alerts.md, {name}: {part} is missing")
        check(f"[{name}](#{name.lower()})" in page, f"docs/alerts.md: {name} is not in the table")
    for rule in re.split(r"^ +- alert: ", rules, flags=re.MULTILINE)[1:]:
        name = rule.split("\n", 1)[0]
        check(f"runbook_url: docs/alerts.md#{name.lower()}\n" in rule, f"{name} has no runbook_url that leads to its section")
        check("severity: warning" in rule or "severity: critical" in rule, f"{name} has no severity")
        check("summary:" in rule and "$value" in rule, f"{name} has no summary, or no value in its description")
    expressions = await dashboard()
    prose = [text for path in ("alerts.md", "monitoring.md", "sizing.md") for text in in_backticks(REPOSITORY / "docs" / path)]
    named = {metric for text in (rules, *expressions, *prose) for metric in METRIC.findall(text)}
    return {re.sub(r"_(bucket|sum|count)$", "", metric) for metric in named}


def in_backticks(page: Path) -> list[str]:
    return re.findall(r"`([^`\n]+)`", page.read_text())


async def dashboard() -> list[str]:
    """The dashboard's expressions; Prometheus understands them."""
    panels: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    ids = [panel["id"] for panel in panels]
    check(len(ids) == len(set(ids)), "the dashboard's panels have ids of their own")
    expressions = [target["expr"] for panel in panels for target in panel.get("targets", [])]
    check(len(expressions) > 20, f"the dashboard shows {len(expressions)} things")
    # What the dashboard fills in.
    plain = [text.replace("$__rate_interval", "1m").replace("$instance", ".*") for text in expressions]
    rules = {"groups": [{"name": "dashboard", "rules": [{"record": f"dashboard:{n}", "expr": text} for n, text in enumerate(plain)]}]}
    with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
        # JSON is YAML.
        json.dump(rules, file)
        file.flush()
        await promtool("check", "rules", file.name)
    return expressions


# Real services


class Watched(Replica):
    """A service with an admin listener."""

    def __init__(self, testbed: Testbed, number: int, provider: str, store: str) -> None:
        super().__init__(testbed, number)
        self.folder = testbed.folder / f"service-{number}"
        self.folder.mkdir()
        # The address is this test's own, so the port is free.
        self.admin = f"{self.address}:9464"
        self.keys = self.folder / "secrets-keys"
        self.environment = service_configuration(self.folder, provider, store, 2.0) | {"COMPANION_ADMIN_LISTEN": self.admin}

    async def make_certificate(self, days: int) -> Certificate:
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        return await Certificate.make(folder, [self.address], "-days", str(days))

    def use(self, certificate: Certificate) -> None:
        self.scheme = "https"
        self.environment |= {"COMPANION_TLS_CERT": str(certificate.chain), "COMPANION_TLS_KEY": str(certificate.key)}

    async def bot_key(self) -> str:
        return str(re.findall(r"bck_[0-9A-Za-z]+", await output(BINARY, "key", "create", "--label", "watched", env=self.environment))[0])


@contextlib.asynccontextmanager
async def small_disk(testbed: Testbed) -> AsyncIterator[Path | None]:
    """A file system that is easily filled; nothing where none can be mounted."""
    folder = testbed.folder / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK},mode=0755", "tmpfs", str(folder)], capture_output=True, check=False)
    if mounted.returncode != 0:
        print(f"  skipped: a full disk; no file system can be mounted here ({mounted.stderr.decode().strip()})", flush=True)
        yield None
        return
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=False)


def fill(folder: Path) -> None:
    """Takes all room that is left."""
    with (folder / "filler").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 4096)


class Users:
    """People who keep signing in, and a bot that keeps sending heartbeats for the shards that it is told."""

    def __init__(self, service: Watched, trust: ssl.SSLContext, key: str) -> None:
        self.service, self.key = service, key
        self.session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60), connector=aiohttp.TCPConnector(ssl=trust))
        self.shards = [0, 1]
        self.tasks = [asyncio.create_task(self.repeat(act)) for act in (self.sign_in, self.report)]
        self.count, self.started_at = 0, time.time()

    async def repeat(self, act: Callable[[], Awaitable[None]]) -> None:
        while True:
            # The service may be down.
            with contextlib.suppress(aiohttp.ClientError, OSError):
                await act()
            await asyncio.sleep(0.25)

    async def sign_in(self) -> None:
        self.count += 1
        # Someone who never comes again, then the same person over and over.
        code = f"{2 if self.count == 1 else 1}.{self.count}"
        async with self.session.post(f"{self.service.url}/auth", headers={"Idp-Code": code}) as response:
            await response.read()

    async def report(self) -> None:
        if self.shards:
            shards = [{"id": shard, "sent_ms_ago": 1, "acknowledged_ms_ago": 1, "latency": 1} for shard in self.shards]
            beat = {"instance": "watched", "started_at": self.started_at, "memory": 1, "shard_count": 2, "shards": shards}
            headers = {"Authorization": f"Bearer {self.key}"}
            async with self.session.put(f"{self.service.url}/bot/heartbeat", headers=headers, json=beat) as response:
                await response.read()

    async def end(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await self.session.close()


async def exposed(services: list[Watched], named: set[str]) -> None:
    """What the rules and the dashboard name is there; each of the services has a part of it."""
    text = ""
    async with aiohttp.ClientSession() as session:
        for service in services:
            async with session.get(f"http://{service.admin}/metrics") as response:
                check(response.status == 200, f"the metrics are there: {response.status}")
                text += await response.text()
    there = set(re.findall(r"^# TYPE (\w+) ", text, re.MULTILINE))
    check(named <= there, f"no service exposes {sorted(named - there)}")
    print(f"  {len(named)} metrics are named, of {len(there)} that there are", flush=True)


async def break_and_heal(testbed: Testbed, stack: contextlib.AsyncExitStack, named: set[str]) -> None:
    provider, database = Provider(), Server(testbed, "left", testbed.address(10))
    await provider.start(testbed.address(200))
    stack.push_async_callback(lambda: provider.end())
    await database.initialise()
    await database.start()
    stack.push_async_callback(database.stop)
    await database.ask(f"CREATE DATABASE {USER}")
    disk = await stack.enter_async_context(small_disk(testbed))

    on_postgres = Watched(testbed, 1, provider.url, f"postgres://{USER}@{database.address}:{PORT}/{USER}")
    on_sqlite = Watched(testbed, 2, provider.url, f"sqlite:{disk or testbed.folder}/companion.db")
    # For strangers: a body has to come soon, and there is one live stream.
    on_sqlite.environment |= {"COMPANION_LIMITS_REQUEST_TIMEOUT": "1s", "COMPANION_LIMITS_LIVE": "1"}
    with_tls = Watched(testbed, 3, provider.url, f"sqlite:{testbed.folder}/tls.db")
    services = [on_postgres, on_sqlite, with_tls]
    expiring, lasting = await with_tls.make_certificate(days=2), await with_tls.make_certificate(days=90)
    with_tls.use(expiring)
    for service in services:
        stack.push_async_callback(service.end, signal.SIGKILL)
        await service.start()
    trust = expiring.trust()
    trust.load_verify_locations(lasting.chain)
    users = Users(with_tls, trust, await with_tls.bot_key())
    stack.push_async_callback(users.end)
    prometheus = Prometheus(testbed)
    await prometheus.start([service.admin for service in services], SILENCE)
    stack.push_async_callback(prometheus.end)

    certificate = {("CompanionCertificateExpires", severity, with_tls.admin) for severity in ("warning", "critical")}
    await prometheus.fires(*certificate)
    print("  a certificate expires: its two alerts fire, and nothing else", flush=True)
    await exposed(services, named)

    await database.stop()
    await provider.end()
    users.shards = []
    expected = certificate | {
        ("CompanionStoreDown", "critical", on_postgres.admin),
        ("CompanionProviderFailing", "critical", with_tls.admin),
        ("CompanionBotSilent", "critical", ""),
    }
    if disk is not None:
        fill(disk)
        expected |= {("CompanionStoreDown", "critical", on_sqlite.admin), ("CompanionDiskFilling", "warning", on_sqlite.admin)}
    await prometheus.fires(*expected)
    full = " a disk is full," if disk is not None else ""
    print(f"  PostgreSQL is stopped,{full} the provider is down, the bot is silent: their alerts fire, too", flush=True)

    await database.start()
    provider = await replace(provider, testbed)
    users.shards = [0]
    if disk is not None:
        (disk / "filler").unlink()
    await prometheus.fires(*certificate, ("CompanionShardsSilent", "warning", ""))
    print("  all is well again but for one of two shards: only its alert fires beside the certificate's", flush=True)

    users.shards = [0, 1]
    # As a renewal does it. The service looks by itself.
    shutil.copyfile(lasting.chain, expiring.chain)
    shutil.copyfile(lasting.key, expiring.key)
    await prometheus.fires()
    print("  that shard is back, and the certificate is renewed: nothing fires", flush=True)

    await strangers_wake_nobody(testbed, stack, prometheus, on_sqlite)

    await with_tls.end()
    await prometheus.fires(("CompanionDown", "critical", with_tls.admin))
    print("  a service is stopped: its alert fires, and nothing else", flush=True)
    old_key = with_tls.keys.read_text()
    with_tls.keys.write_text(NEW_KEY)
    await with_tls.start()
    await prometheus.fires(("CompanionGrantsUnreadable", "warning", ""))
    print("  it runs again, but its key was replaced by another: the alert about grants fires", flush=True)
    await with_tls.end()
    with_tls.keys.write_text(f"{NEW_KEY},{old_key}")
    await with_tls.start()
    await prometheus.fires()
    print("  it has both keys: nothing fires", flush=True)


async def strangers_wake_nobody(testbed: Testbed, stack: contextlib.AsyncExitStack, prometheus: Prometheus, service: Watched) -> None:
    """All that strangers can do raises a warning at most."""
    strangers = Strangers(testbed, (service.address, service.port), (service.address, int(service.admin.rpartition(":")[2])))
    stack.push_async_callback(strangers.end)
    for _ in range(2):
        for status in (408, 503, 401):
            await strangers.have_been_told(status, 20)
        # Longer than the window over which the rules look.
        await prometheus.stays_calm(20)
    await prometheus.fires(("CompanionOverloaded", "warning", service.admin))
    told = ", ".join(f"{times} times {status}" for status, times in sorted(strangers.told.items()))
    print(f"  strangers do what they can ({told}): a warning fires, and nothing critical", flush=True)
    await strangers.end()
    await prometheus.fires()
    print("  they have gone: nothing fires", flush=True)


async def replace(provider: Provider, testbed: Testbed) -> Provider:
    """A provider where one has been."""
    other = Provider()
    await other.start(testbed.address(200), provider.port)
    return other


async def program() -> None:
    began = time.monotonic()
    named = await files()
    print(f"the rules, their tests, their pages and the dashboard fit together: {time.monotonic() - began:.1f} s", flush=True)
    testbed = Testbed()
    try:
        async with contextlib.AsyncExitStack() as stack:
            try:
                await break_and_heal(testbed, stack, named)
            except Failed as failed:
                logs = sorted(testbed.folder.glob("*.log"))
                told = "\n".join(f"-- {log.name}\n{last_lines(log, 8)}" for log in logs)
                raise Failed(f"{failed}\n{told}") from failed
    finally:
        testbed.remove()
    print(f"{time.monotonic() - began:.0f} s in all", flush=True)


if __name__ == "__main__":
    sys.exit(run(program))
