"""Mounts the file system that loses what was not synced (lossy_fs.py), where there is FUSE."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from service import Failed, bootstrap, eventually, skip

LIBRARY = "mfusepy==3.1.1"


class Disk:
    def __init__(self, folder: Path) -> None:
        self.path, self.log = folder / "disk", folder / "disk.log"

    def __enter__(self) -> Disk:
        if not os.access("/dev/fuse", os.R_OK | os.W_OK):
            skip("no FUSE here")
        try:
            environment = bootstrap(
                f'environment="$target/tools/{LIBRARY}"; make_environment "$environment" {LIBRARY} >&2; '
                '"$environment/bin/python" -c "import mfusepy" 2>/dev/null || install_packages fuse3; echo "$environment"'
            )
        except subprocess.CalledProcessError:
            skip("no FUSE here")
        self.path.mkdir(exist_ok=True)
        program = [f"{environment}/bin/python", str(Path(__file__).with_name("lossy_fs.py")), str(self.path)]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(program, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

        def mounted() -> bool:
            if self.process.poll() is not None:
                skip(f"FUSE can't be used: {self.log.read_text().strip().splitlines()[-1:]}")
            return (self.path / ".control").exists()

        eventually(mounted, "the file system is mounted")
        return self

    def tell(self, command: str) -> None:
        with (self.path / ".control").open("w") as control:
            control.write(command)

    def sync(self) -> None:
        """Syncs the folder itself, as a program does after it has made or removed files."""
        folder = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def __exit__(self, *_: object) -> None:
        # Without root only fusermount3 works.
        unmount = ["fusermount3", "-u", "-z"] if shutil.which("fusermount3") else ["umount", "--lazy"]
        subprocess.run([*unmount, str(self.path)], check=False)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise Failed("the file system did not end") from None
