"""The objects that Discord sends, with every field that libraries read. A test gives only the fields that matter to it."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

JOINED = "2024-01-01T00:00:00.000000+00:00"
# A world's fields for members that Discord doesn't have: online status and voice channel.
OWN_FIELDS = ("status", "voice_channel_id")


def user(given: Json, bot: bool = False) -> Json:
    return {
        "username": f"user{given['id']}",
        "discriminator": "0",
        "global_name": None,
        "avatar": None,
        "bot": bot,
        "public_flags": 0,
        **given,
        "id": str(given["id"]),
    }


def member(given: Json) -> Json:
    return {
        "nick": None,
        "avatar": None,
        "banner": None,
        "joined_at": JOINED,
        "premium_since": None,
        "deaf": False,
        "mute": False,
        "pending": False,
        "flags": 0,
        "communication_disabled_until": None,
        **{key: value for key, value in given.items() if key not in OWN_FIELDS},
        "user": user(given["user"]),
        "roles": [str(role) for role in given.get("roles", [])],
    }


def presence(given: Json) -> Json:
    """The presence of a member, as GUILD_CREATE and the member chunks carry it."""
    status = given.get("status", "offline")
    return {
        "user": {"id": str(given["user"]["id"])},
        "status": status,
        "activities": [],
        "client_status": {} if status == "offline" else {"desktop": status},
    }


def voice_state(given: Json) -> Json:
    return {
        "channel_id": str(given["voice_channel_id"]),
        "user_id": str(given["user"]["id"]),
        "session_id": "fake",
        "deaf": False,
        "mute": False,
        "self_deaf": False,
        "self_mute": False,
        "self_video": False,
        "suppress": False,
        "request_to_speak_timestamp": None,
    }


def role(given: Json) -> Json:
    return {
        "name": f"role{given['id']}",
        "color": 0,
        "colors": {"primary_color": 0, "secondary_color": None, "tertiary_color": None},
        "hoist": False,
        "icon": None,
        "unicode_emoji": None,
        "position": 1,
        "permissions": "0",
        "managed": False,
        "mentionable": False,
        "flags": 0,
        **given,
        "id": str(given["id"]),
    }


def channel(given: Json) -> Json:
    return {
        "type": 0,
        "name": f"channel{given['id']}",
        "position": 0,
        "permission_overwrites": [],
        "parent_id": None,
        "topic": None,
        "nsfw": False,
        "last_message_id": None,
        "rate_limit_per_user": 0,
        "flags": 0,
        **given,
        "id": str(given["id"]),
    }


def guild(given: Json) -> Json:
    """What GUILD_UPDATE and the REST API show of a guild, without its roles."""
    return {
        "name": f"guild{given['id']}",
        "icon": None,
        "splash": None,
        "discovery_splash": None,
        "afk_channel_id": None,
        "afk_timeout": 300,
        "verification_level": 0,
        "default_message_notifications": 0,
        "explicit_content_filter": 0,
        "emojis": [],
        "stickers": [],
        "features": [],
        "mfa_level": 0,
        "application_id": None,
        "system_channel_id": None,
        "system_channel_flags": 0,
        "rules_channel_id": None,
        "vanity_url_code": None,
        "description": None,
        "banner": None,
        "premium_tier": 0,
        "premium_subscription_count": 0,
        "preferred_locale": "en-US",
        "public_updates_channel_id": None,
        "nsfw_level": 0,
        "premium_progress_bar_enabled": False,
        "safety_alerts_channel_id": None,
        "incidents_data": None,
        **given,
        "id": str(given["id"]),
    }


def message(given: Json, author: Json) -> Json:
    return {
        "type": 0,
        "content": "",
        "channel_id": "1",
        "timestamp": JOINED,
        "edited_timestamp": None,
        "tts": False,
        "mention_everyone": False,
        "mentions": [],
        "mention_roles": [],
        "attachments": [],
        "embeds": [],
        "components": [],
        "pinned": False,
        "flags": 0,
        **given,
        "id": str(given["id"]),
        "author": user({**author, **given.get("author", {})}, bool(author.get("bot"))),
    }


def interaction(given: Json, application: str) -> Json:
    """A command (type 2) that someone uses, in a guild if the member is given, else in a direct message."""
    place = str(given.get("channel_id", "1"))
    who = "member" if "member" in given else "user"
    person = {**member(given["member"]), "permissions": "0"} if who == "member" else user(given.get("user", {"id": "1"}))
    return {
        "application_id": application,
        "type": 2,
        "version": 1,
        "locale": "en-US",
        "guild_locale": "en-US",
        "app_permissions": "0",
        "entitlements": [],
        "authorizing_integration_owners": {},
        "context": 0 if who == "member" else 1,
        "attachment_size_limit": 10 * 1024 * 1024,
        "channel": channel({"id": place, "type": 0 if who == "member" else 1, "permissions": "0"}),
        "channel_id": place,
        **given,
        "data": {"id": "1", "type": 1, "options": [], **given.get("data", {})},
        who: person,
    }
