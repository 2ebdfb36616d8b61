"""What a dashboard does, with a client made by openapi-python-client."""

import os

from generated_client import AuthenticatedClient, Client
from generated_client.api.dashboard import get_guild, list_guilds, sign_in, sign_out
from generated_client.api.public import get_stats
from generated_client.models import (
    GuildListResponse,
    GuildNotFoundError,
    GuildResponse,
    NewSessionResponse,
    NothingResponse,
    StatsResponse,
    TokenUnauthorizedError,
)
from generated_client.models.guild_not_found_error_data_error import GuildNotFoundErrorDataError
from generated_client.models.role import Role
from generated_client.models.token_unauthorized_error_data_error import TokenUnauthorizedErrorDataError


def signed_in(url: str, token: str) -> AuthenticatedClient:
    return AuthenticatedClient(base_url=url, token=token, prefix="", auth_header_name="Token")


def main() -> None:
    url = os.environ["URL"]
    anybody = Client(base_url=url)
    assert isinstance(get_stats.sync(client=anybody), StatsResponse)

    session = sign_in.sync(client=anybody, idp_code="owner")
    assert isinstance(session, NewSessionResponse), session
    assert session.data.user.id.isdigit()
    client = signed_in(url, session.data.token)

    guilds = list_guilds.sync(client=client)
    assert isinstance(guilds, GuildListResponse), guilds
    first = guilds.data[0]
    assert first.role == Role.OWNER
    assert first.permissions.manage_server

    guild = get_guild.sync(first.id, client=client, cache_control="no-cache")
    assert isinstance(guild, GuildResponse) and guild.data == first, guild

    unknown = get_guild.sync("1", client=client)
    assert isinstance(unknown, GuildNotFoundError), unknown
    assert unknown.data.error is GuildNotFoundErrorDataError.GUILD_NOT_FOUND

    assert isinstance(sign_out.sync(client=client), NothingResponse)
    refused = list_guilds.sync(client=client)
    assert isinstance(refused, TokenUnauthorizedError), refused
    assert refused.data.error is TokenUnauthorizedErrorDataError.TOKEN_INVALID


main()
