"""The address and the key: where they come from, and whether they are valid."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from ._lines import without_secrets


class ConfigurationError(Exception):
    """Says what is wrong with the configuration and what to do. Never contains the key."""


@dataclass(frozen=True)
class Configuration:
    url: str
    key: str
    spool: str | None = None


def read(
    url: str | None, key: str | None, spool: str | None = None, environment: Mapping[str, str] | None = None
) -> Configuration:
    """The configuration, from arguments or else the environment. Raises `ConfigurationError` if it is invalid."""
    environment = os.environ if environment is None else environment
    return Configuration(
        check_url(*_find(url, "url", "COMPANION_URL", environment)),
        check_key(*_find(key, "key", "COMPANION_BOT_KEY", environment)),
        spool or environment.get("COMPANION_SPOOL") or None,
    )


def _find(argument: str | None, name: str, variable: str, environment: Mapping[str, str]) -> tuple[str, str]:
    if argument is not None:
        return argument, f"the argument `{name}`"
    return environment.get(variable, ""), variable


def check_url(url: str, where: str) -> str:
    if not url.strip():
        raise ConfigurationError(f"{where} is empty or not set: set it to the service's address, for example http://127.0.0.1:8080")
    if url != url.strip() or re.search(r"\s", url):
        raise ConfigurationError(f"{where} has spaces or line breaks in it: remove them")
    shown = without_secrets(url)
    scheme, separator, rest = url.partition("://")
    if not separator:
        raise ConfigurationError(f"{where} has no scheme: write https://{shown} or http://{shown}")
    if scheme.lower() not in ("http", "https"):
        raise ConfigurationError(f"{where} begins with {scheme}://: it must begin with https:// or http://")
    if "@" in rest.partition("/")[0]:
        raise ConfigurationError(f"{where} has a username or password in it: remove it, the service only needs the bot key")
    if not re.match(r"(\[[0-9A-Fa-f:.]+\]|[^/:@?#\[\]]+)(:\d{1,5})?(/[^?#]*)?$", rest):
        raise ConfigurationError(f"{where} is not an address ({shown}): write scheme, host and port, like http://127.0.0.1:8080")
    return url


def check_key(key: str, where: str) -> str:
    if not key.strip():
        raise ConfigurationError(f"{where} is empty or not set: the operator creates a key with `bot-companion key create --label …`")
    if key != key.strip():
        raise ConfigurationError(f"{where} has a space or a line break at its beginning or end: remove it (a secret file often ends with one)")
    if not re.fullmatch(r"[\x21-\x7e]+", key):
        raise ConfigurationError(f"{where} has characters that no key has: copy it again, it is `bck_` followed by letters and digits")
    return key
