"""Puts the executable into the wheel, with a second name for it, and gives the wheel the platform's tag."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Executable(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        executable = Path(self.root, "bin", "bot-companion")
        if self.target_name == "sdist" or not executable.exists():
            raise SystemExit("bot-companion-server is offered as a wheel only, because it holds an executable; packaging/wheel/build builds it")
        # manylinux_2_17 is Linux with glibc 2.17 or later. There is no Python code, so any interpreter will do.
        build_data["tag"] = f"py3-none-{os.environ.get('WHEEL_PLATFORM', 'manylinux_2_17_x86_64')}"
        build_data["pure_python"] = False
        # `uvx bot-companion-server` looks for a command with the package's name. A second copy would double the wheel.
        build_data["shared_scripts"] = {
            str(executable): "bot-companion",
            str(Path(self.root, "bot-companion-server.sh")): "bot-companion-server",
        }
