"""The service with TLS, which is how it speaks HTTP/2."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPSConnection
from pathlib import Path

from service import Client, Service, bootstrap


def certificate(folder: Path, *addresses: str) -> tuple[Path, Path]:
    """A certificate for these addresses that is its own authority, and its key."""
    bootstrap("need_program openssl; echo there")
    chain, key = folder / "certificate.pem", folder / "certificate.key"
    names = ",".join(f"IP:{address}" for address in addresses)
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=faults",
         "-addext", f"subjectAltName={names}", "-keyout", str(key), "-out", str(chain)],
        check=True, capture_output=True,
    )  # fmt: skip
    key.chmod(0o600)
    return chain, key


@dataclass
class SecureService(Service):
    def __post_init__(self) -> None:
        super().__post_init__()
        chain, key = certificate(self.folder, "127.0.0.1")
        self.configuration += f'tls.cert = "{chain}"\ntls.key = "{key}"\n'
        self.trust = ssl.create_default_context(cafile=str(chain))

    def __enter__(self) -> SecureService:
        return self

    @contextmanager
    def client(self, timeout: float = 30.0) -> Iterator[Client]:
        client = Client(self.url, timeout)
        client.connection = HTTPSConnection(client.connection.host, client.connection.port, timeout=timeout, context=self.trust)
        try:
            yield client
        finally:
            client.close()
