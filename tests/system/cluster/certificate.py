"""A certificate for this machine's test only."""

from __future__ import annotations

import ssl
from pathlib import Path

from .testbed import output


class Certificate:
    """A certificate for some addresses, which is its own authority, and its key: as two files, and as one."""

    def __init__(self, folder: Path) -> None:
        self.chain, self.key, self.both = folder / "certificate.pem", folder / "certificate.key", folder / "certificate-and-key.pem"

    @classmethod
    async def make(cls, folder: Path, addresses: list[str], *options: str) -> Certificate:
        """Options are those of `openssl req`."""
        made = cls(folder)
        names = ",".join(f"IP:{address}" for address in addresses)
        await output(
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=proxy",
            "-addext", f"subjectAltName={names}", "-keyout", str(made.key), "-out", str(made.chain), *options,
        )  # fmt: skip
        made.both.write_text(made.chain.read_text() + made.key.read_text())
        return made

    def trust(self) -> ssl.SSLContext:
        """What a client needs who trusts this certificate, and no other."""
        return ssl.create_default_context(cafile=str(self.chain))
