"""A service that keeps the feed's rules, for tests of anything that speaks to one: no database, no users, and faults on command.

`feed` has the rules, `lines` says what a line may hold, `server` puts both behind a socket.
"""

from .feed import Answer, Feed, Shard
from .server import KEY, Fault, ReferenceService

__all__ = ["KEY", "Answer", "Fault", "Feed", "ReferenceService", "Shard"]
