"""A whole site on one machine, of real parts: PostgreSQL with a synchronous standby, replicas of the service, HAProxy with the
configuration in `deploy`, a provider, a network that fails on demand, and people and a bot who use it all the time."""
