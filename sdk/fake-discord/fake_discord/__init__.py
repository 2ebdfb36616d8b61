"""A fake Discord for the tests of bots: REST API and gateway, as rude as the original, with faults on command."""

from .faults import Fault
from .record import Record
from .server import FakeDiscord

__all__ = ["FakeDiscord", "Fault", "Record"]
