"""Plays Discord's REST API and gateway for the tests of the SDKs."""

from .server import FakeDiscord

__all__ = ["FakeDiscord"]
