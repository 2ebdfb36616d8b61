"""A PostgreSQL primary and its synchronous standby, which take turns."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import shutil
import signal
from pathlib import Path
from typing import Any

from .testbed import REPOSITORY, Failed, Testbed, end, eventually, last_lines, output

PORT = 5432
USER = "companion"


def programs() -> Path:
    """The folder of the newest PostgreSQL of this machine."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4]))
    on_path = shutil.which("initdb")
    if not found and on_path is None:
        raise Failed("PostgreSQL is missing: install Debian's package `postgresql`")
    return found[-1].parent if found else Path(str(on_path)).parent


class Server:
    """One PostgreSQL, primary or standby."""

    def __init__(self, testbed: Testbed, name: str, address: str) -> None:
        self.name, self.address, self.bin = name, address, programs()
        self.folder = testbed.folder / f"postgres-{name}"
        self.data, self.log = self.folder / "data", self.folder / "log"
        self.process: asyncio.subprocess.Process | None = None
        # It refuses to run as root.
        self.identity: dict[str, Any] = {"cwd": self.folder}
        self.folder.mkdir(mode=0o700)
        if os.geteuid() == 0:
            account = pwd.getpwnam("postgres")
            os.chown(self.folder, account.pw_uid, account.pw_gid)
            self.identity |= {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}

    async def call(self, program: str, *arguments: str) -> str:
        return await output(str(self.bin / program), *arguments, **self.identity)

    async def ask(self, sql: str) -> str:
        said = await self.call("psql", "-XAtq", "-h", str(self.folder), "-U", USER, "-d", "postgres", "-c", sql)
        return said.strip()

    async def initialise(self) -> None:
        await self.call("initdb", "-D", str(self.data), "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        # The snippet that operators are given.
        configuration = (REPOSITORY / "deploy" / "postgresql.conf").read_text()
        with (self.data / "postgresql.conf").open("a") as file:
            file.write(configuration)
        (self.data / "pg_hba.conf").write_text("local all all trust\nlocal replication all trust\nhost all all 127.0.0.0/8 trust\n")

    async def copy(self, primary: Server) -> None:
        """Becomes a copy of the primary that has the primary's configuration, but not that of its turn as a primary."""
        shutil.rmtree(self.data, ignore_errors=True)
        source = ["-h", str(primary.folder), "-U", USER]
        await self.call("pg_basebackup", *source, "-D", str(self.data), "-X", "stream", "-c", "fast", "--no-sync")
        (self.data / "postgresql.auto.conf").write_text("")
        (self.data / "standby.signal").touch()
        if os.geteuid() == 0:
            account = pwd.getpwnam("postgres")
            os.chown(self.data / "standby.signal", account.pw_uid, account.pw_gid)

    async def start(self, follows: Server | None = None) -> None:
        configuration = {
            "listen_addresses": self.address,
            "port": str(PORT),
            "unix_socket_directories": str(self.folder),
            "cluster_name": self.name,
            # Only processes are killed here, never the machine, so what was handed to the system survives. With fsync, the figures
            # would tell how busy the disk is with other things.
            "fsync": "off",
        }
        if follows is not None:
            configuration["primary_conninfo"] = f"host={follows.folder} user={USER} application_name={self.name}"
        arguments = [part for name, value in configuration.items() for part in ("-c", f"{name}={value}")]
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                str(self.bin / "postgres"), "-D", str(self.data), *arguments, stdin=asyncio.subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True, **self.identity,
            )  # fmt: skip
        await eventually(self.answers, f"PostgreSQL {self.name} answers")

    async def answers(self) -> bool | None:
        if self.process is None or self.process.returncode is not None:
            raise Failed(f"PostgreSQL {self.name} has ended:\n{last_lines(self.log)}")
        with contextlib.suppress(Failed):
            return await self.ask("SELECT 1") == "1"
        return None

    async def stop(self) -> None:
        """The fast way: connections are ended, everything is written."""
        await end(self.process, signal.SIGINT)

    async def kill(self) -> None:
        """As if the machine were gone: all of its processes are killed at once."""
        assert self.process is not None
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for each in (pid, *map(int, children)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        await self.process.wait()

    async def promote(self) -> None:
        await self.call("pg_ctl", "promote", "-D", str(self.data), "-w", "-t", "300")


class Pair:
    """A primary that acknowledges nothing which its standby does not have."""

    def __init__(self, testbed: Testbed) -> None:
        self.primary = Server(testbed, "left", testbed.address(10))
        self.standby = Server(testbed, "right", testbed.address(11))

    async def start(self, with_standby: bool) -> None:
        await self.primary.initialise()
        await self.primary.start()
        await self.primary.ask(f"CREATE DATABASE {USER}")
        if with_standby:
            await self.follow()

    async def follow(self) -> None:
        """Makes the other one a synchronous standby, from scratch."""
        await self.standby.copy(self.primary)
        await self.standby.start(follows=self.primary)
        # Only now: until a standby is there, every commit would wait for it.
        await self.primary.ask(f"ALTER SYSTEM SET synchronous_standby_names = '{self.standby.name}'")
        await self.primary.ask("SELECT pg_reload_conf()")

        async def synchronous() -> bool:
            return await self.primary.ask("SELECT sync_state FROM pg_stat_replication") == "sync"

        await eventually(synchronous, "the standby is synchronous")

    def swap_roles(self) -> None:
        self.primary, self.standby = self.standby, self.primary

    def url(self) -> str:
        """Names both servers, so that a client finds the primary."""
        hosts = ",".join(f"{server.address}:{PORT}" for server in sorted((self.primary, self.standby), key=lambda each: each.name))
        return f"postgres://{USER}@{hosts}/{USER}"

    async def end(self) -> None:
        for server in (self.standby, self.primary):
            if server.process is not None and server.process.returncode is None:
                await end(server.process, signal.SIGQUIT)
