"""Gateway intents: which events a session gets."""

from __future__ import annotations

from .shapes import Json

GUILDS = 1 << 0
GUILD_MEMBERS = 1 << 1
GUILD_PRESENCES = 1 << 8
MESSAGE_CONTENT = 1 << 15

# The names of the privileged intents in a world.
PRIVILEGED = {"members": GUILD_MEMBERS, "presences": GUILD_PRESENCES, "message_content": MESSAGE_CONTENT}

_EVENTS = {
    GUILDS: (
        "GUILD_CREATE GUILD_UPDATE GUILD_DELETE GUILD_ROLE_CREATE GUILD_ROLE_UPDATE GUILD_ROLE_DELETE CHANNEL_CREATE CHANNEL_UPDATE"
        " CHANNEL_DELETE CHANNEL_PINS_UPDATE THREAD_CREATE THREAD_UPDATE THREAD_DELETE THREAD_LIST_SYNC THREAD_MEMBER_UPDATE"
        " THREAD_MEMBERS_UPDATE STAGE_INSTANCE_CREATE STAGE_INSTANCE_UPDATE STAGE_INSTANCE_DELETE VOICE_CHANNEL_STATUS_UPDATE"
        " VOICE_CHANNEL_START_TIME_UPDATE"
    ),
    GUILD_MEMBERS: "GUILD_MEMBER_ADD GUILD_MEMBER_UPDATE GUILD_MEMBER_REMOVE THREAD_MEMBERS_UPDATE",
    1 << 2: "GUILD_AUDIT_LOG_ENTRY_CREATE GUILD_BAN_ADD GUILD_BAN_REMOVE",
    1 << 3: (
        "GUILD_EMOJIS_UPDATE GUILD_STICKERS_UPDATE GUILD_SOUNDBOARD_SOUND_CREATE GUILD_SOUNDBOARD_SOUND_UPDATE"
        " GUILD_SOUNDBOARD_SOUND_DELETE GUILD_SOUNDBOARD_SOUNDS_UPDATE"
    ),
    1 << 4: "GUILD_INTEGRATIONS_UPDATE INTEGRATION_CREATE INTEGRATION_UPDATE INTEGRATION_DELETE",
    1 << 5: "WEBHOOKS_UPDATE",
    1 << 6: "INVITE_CREATE INVITE_DELETE",
    1 << 7: "VOICE_CHANNEL_EFFECT_SEND VOICE_STATE_UPDATE",
    GUILD_PRESENCES: "PRESENCE_UPDATE",
    1 << 9: "MESSAGE_CREATE MESSAGE_UPDATE MESSAGE_DELETE MESSAGE_DELETE_BULK",
    1 << 10: "MESSAGE_REACTION_ADD MESSAGE_REACTION_REMOVE MESSAGE_REACTION_REMOVE_ALL MESSAGE_REACTION_REMOVE_EMOJI",
    1 << 11: "TYPING_START",
    1 << 16: (
        "GUILD_SCHEDULED_EVENT_CREATE GUILD_SCHEDULED_EVENT_UPDATE GUILD_SCHEDULED_EVENT_DELETE GUILD_SCHEDULED_EVENT_USER_ADD"
        " GUILD_SCHEDULED_EVENT_USER_REMOVE"
    ),
    1 << 20: "AUTO_MODERATION_RULE_CREATE AUTO_MODERATION_RULE_UPDATE AUTO_MODERATION_RULE_DELETE",
    1 << 21: "AUTO_MODERATION_ACTION_EXECUTION",
    1 << 24: "MESSAGE_POLL_VOTE_ADD MESSAGE_POLL_VOTE_REMOVE",
}
# The same for direct messages, which are events without a guild.
_DIRECT = {
    1 << 12: "MESSAGE_CREATE MESSAGE_UPDATE MESSAGE_DELETE CHANNEL_PINS_UPDATE",
    1 << 13: "MESSAGE_REACTION_ADD MESSAGE_REACTION_REMOVE MESSAGE_REACTION_REMOVE_ALL MESSAGE_REACTION_REMOVE_EMOJI",
    1 << 14: "TYPING_START",
    1 << 25: "MESSAGE_POLL_VOTE_ADD MESSAGE_POLL_VOTE_REMOVE",
}


def _by_event(table: dict[int, str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for bit, events in table.items():
        for event in events.split():
            found[event] = found.get(event, 0) | bit
    return found


_OF_GUILD = _by_event(_EVENTS)
_OF_DIRECT = _by_event(_DIRECT)
VALID = sum(_EVENTS) | sum(_DIRECT) | MESSAGE_CONTENT


def wants(intents: int, kind: str, data: Json, bot_id: int) -> bool:
    """Whether a session with these intents gets this event. An event that no intent names reaches every session."""
    if kind == "GUILD_MEMBER_UPDATE" and str(data.get("user", {}).get("id")) == str(bot_id):
        return True
    direct = kind in _OF_DIRECT and not data.get("guild_id")
    needed = _OF_DIRECT[kind] if direct else _OF_GUILD.get(kind, 0)
    return needed == 0 or bool(intents & needed)


def visible(intents: int, kind: str, data: Json, bot_id: int) -> Json:
    """The event without what only the message content intent shows: the content of messages that others write in guilds."""
    if kind not in ("MESSAGE_CREATE", "MESSAGE_UPDATE") or intents & MESSAGE_CONTENT or not data.get("guild_id"):
        return data
    concerned = [data.get("author", {}), *data.get("mentions", [])]
    if any(str(person.get("id")) == str(bot_id) for person in concerned):
        return data
    hidden: Json = {"content": "", "embeds": [], "attachments": [], "components": []}
    return {**{key: value for key, value in data.items() if key != "poll"}, **{key: hidden[key] for key in hidden if key in data}}


def refusal(intents: object, allowed: int) -> int | None:
    """The close code for intents that cannot be had."""
    if not isinstance(intents, int) or isinstance(intents, bool) or intents < 0 or intents & ~VALID:
        return 4013
    privileged = sum(PRIVILEGED.values())
    return 4014 if intents & privileged & ~allowed else None
