"""Whether a scenario is well formed: known steps, known keys, the right types, and ids that fit their shards."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from .files import Json, Scenario, shard_of

Check = Callable[[Any], bool]


def anything(_value: Any) -> bool:
    return True


def is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def is_id(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch("[1-9][0-9]*", value) is not None


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0


def is_count(value: Any) -> bool:
    return is_number(value) and isinstance(value, int)


def is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def is_time(value: Any) -> bool:
    return is_number(value) and float(value * 4).is_integer()


def is_object(value: Any) -> bool:
    return isinstance(value, dict)


def one_of(*values: Any) -> Check:
    return lambda value: any(value == one and type(value) is type(one) for one in values)


def list_of(check: Check) -> Check:
    return lambda value: isinstance(value, list) and all(check(item) for item in value)


def shape(needed: dict[str, Check], optional: dict[str, Check]) -> Check:
    known = {**needed, **optional}
    return lambda value: (
        is_object(value) and all(name in value for name in needed) and all(n in known and known[n](v) for n, v in value.items())
    )


def by(check_key: Check, check_value: Check) -> Check:
    return lambda value: is_object(value) and all(check_key(k) and check_value(v) for k, v in value.items())


def maybe(check: Check) -> Check:
    return lambda value: value is None or check(value)


GUILD = shape(
    {"id": is_id},
    {
        "name": is_text,
        "icon": maybe(is_text),
        "owner": is_id,
        "members": is_count,
        "unavailable": is_flag,
        "people": by(is_id, list_of(is_id)),
        "cached": is_flag,
    },
)
INTENTS = list_of(one_of("guilds", "members"))
SHARDS = list_of(is_count)
WORLD = shape({"guilds": list_of(GUILD)}, {"name": is_text, "shard_count": is_count, "shards": SHARDS, "intents": INTENTS})
CALLBACKS: dict[str, Check] = {
    "grants": by(is_id, by(is_text, list_of(is_text))),
    "setup": by(is_id, is_flag),
    "linked": by(is_id, is_flag),
    "subscriptions": list_of(is_object),
    "team": list_of(is_object),
}
LIMITS: dict[str, Check] = {
    **{name: is_number for name in ("heartbeat_interval", "gather_time", "member_count_interval", "refresh_interval")},
    **{name: is_number for name in ("callback_timeout", "callback_retry", "listing_rate", "listing_retry", "stall_timeout")},
    **{name: is_number for name in ("flush_interval", "first_retry", "longest_retry", "longest_retry_after", "close_timeout")},
    **{name: is_count for name in ("batch_lines", "batch_bytes", "line_bytes", "changes", "feedback", "feedback_lines")},
    **{name: is_count for name in ("callbacks_at_once", "subscription_tries")},
}
HEADER = shape(
    {"scenario": is_text, "about": is_text, "world": WORLD},
    {"callbacks": shape({}, CALLBACKS), "limits": shape({}, LIMITS), "heartbeats": one_of("expected")},
)
COUNTERS = (
    "requests failures heartbeats snapshots lines_sent lines_refused lines_ignored resyncs feedback_delivered feedback_dropped "
    "callback_failures listings listing_failures"
).split()
STATUS = shape(
    {},
    {
        "state": one_of("starting", "syncing", "synced", "replaced", "unreachable", "closed"),
        "instance": is_text,
        "guilds": is_count,
        "shards": is_count,
        "staff": is_count,
        "waiting": shape({}, {"changes": is_count, "feedback": is_count, "batch": is_count}),
        "last_error": maybe(is_text),
        "counters": shape({}, dict.fromkeys(COUNTERS, is_count)),
    },
)
ANSWER_DATA = shape(
    {},
    {
        **{name: is_count for name in ("applied", "ignored", "next", "line")},
        **{name: is_text for name in ("error", "reason")},
        "reasons": list_of(is_text),
        "lines": list_of(shape({"line": is_count, "reason": is_text}, {})),
        **{name: list_of(shape({"shard_count": is_count, "shard_id": is_count}, {})) for name in ("replaced", "free")},
    },
)
WITH_STATUS = shape({"status": is_count}, {"data": ANSWER_DATA, "retry_after": is_text})


def is_answer(value: Any) -> bool:
    return value in ("lost", "garbage", "hang") if isinstance(value, str) else WITH_STATUS(value)


REQUEST: dict[str, Check] = {"sequence": is_count, "lines": list_of(is_object), "count": is_count, "answer": is_answer, "fiction": is_text}
UPLOAD: dict[str, Check] = {**REQUEST, "after": maybe(is_count)}
HEARTBEAT: dict[str, Check] = {"body": is_object, "answer": is_answer, "fiction": is_text}
EXPECTED: dict[str, dict[str, Check]] = {
    "nothing": {},
    "PUT /bot/heartbeat": HEARTBEAT,
    "PUT /bot/subscriptions": UPLOAD,
    "POST /bot/events": REQUEST,
}
SNAPSHOT = re.compile(r"PUT /bot/shards/([1-9][0-9]*)/(0|[1-9][0-9]*)/guilds")

MEMBER = shape({"guild": is_id, "user": is_id}, {"roles": list_of(is_id)})
SHARD = shape({"shard": is_count}, {"guilds": list_of(is_id)})
BOT: dict[str, Check] = {
    "session": SHARD,
    "ready": shape({"shard": is_count}, {}),
    "guild_here": shape({"guild": GUILD}, {}),
    "guild_changed": shape({"guild": GUILD}, {}),
    "guild_gone": shape({"guild": is_id}, {}),
    "guild_unavailable": shape({"guild": is_id}, {}),
    "role_changed": shape({"guild": is_id, "role": is_id}, {}),
    "role_gone": shape({"guild": is_id, "role": is_id}, {}),
    "member": shape({"guild": is_id, "user": is_id, "roles": list_of(is_id)}, {"fails": one_of(True)}),
    "limited": shape({"seconds": is_time}, {}),
    "member_joined": MEMBER,
    "member_gone": shape({"guild": is_id, "user": is_id}, {}),
}
WHEN: dict[str, Check] = {"when": is_text}
CALLS: dict[str, Check] = {
    "changed": shape({}, {"guild": is_id, **WHEN}),
    "subscriptions_changed": shape({}, WHEN),
    "team_changed": shape({}, WHEN),
    "feedback": shape({"entry": is_object, "as": is_text}, WHEN),
    "feedback_gone": shape({"id": is_text, "as": is_text}, WHEN),
    "close": shape({}, WHEN),
}
SERVICE: dict[str, Check] = {
    "away": shape({}, {}),
    "back": shape({}, {}),
    "forget": shape({}, {}),
    "expects": shape({"next": is_count}, {}),
    "taken": shape({"shard": is_count}, {}),
    "left": shape({}, {}),
}
CHANGED_WORLD = shape(
    {}, {"guilds": list_of(GUILD), "gone": list_of(is_id), "shards": SHARDS, "shard_count": is_count, "intents": INTENTS}
)
SIMPLE: dict[str, Check] = {
    "world": shape({"world": CHANGED_WORLD}, {}),
    "listing": shape({"listing": one_of("ok", "fail", "forbidden", "hang")}, {"guild": is_id}),
    "advance": shape({"advance": is_time}, {}),
    "log": shape({"log": one_of("info", "warn", "error"), "contains": is_text}, {}),
    "delivery": shape({"delivery": is_text, "delivered": one_of(True, False, "pending")}, {"contains": is_text}),
    "status": shape({"status": STATUS}, {}),
    "event": shape({"event": one_of("synced", "error")}, {"contains": is_text}),
    "closed": shape({"closed": one_of(True)}, {}),
}
NESTED = {"bot": BOT, "call": CALLS, "service": SERVICE}


def is_callback_step(step: Json) -> bool:
    names = one_of(*CALLBACKS)
    does = one_of("answer", "fail", "hang", "hang_in_iteration", "slip", "slow")
    value: Check = anything if step.get("does") == "slip" else CALLBACKS.get(str(step.get("callback")), is_flag)
    if not shape({"callback": names, "does": does}, {"value": value})(step):
        return False
    iterated = step["callback"] in ("subscriptions", "team")
    return (step["does"] in ("answer", "slip", "slow")) == ("value" in step) and (iterated or step["does"] != "hang_in_iteration")


def is_expectation(step: Json) -> bool:
    rest = {name: value for name, value in step.items() if name != "expect"}
    request = step["expect"]
    if not isinstance(request, str):
        return False
    known = UPLOAD if SNAPSHOT.fullmatch(request) else EXPECTED.get(request)
    if known is None or not shape({}, known)(rest):
        return False
    return known not in (REQUEST, UPLOAD) or ("sequence" in rest and ("lines" in rest) != ("count" in rest))


def is_step(step: Json) -> bool:
    if "expect" in step:
        return is_expectation(step)
    if "callback" in step:
        return is_callback_step(step)
    for kind, table in NESTED.items():
        if kind in step:
            rest = {name: value for name, value in step.items() if name != kind}
            return isinstance(step[kind], str) and step[kind] in table and table[step[kind]](rest)
    return any(kind in step and check(step) for kind, check in SIMPLE.items())


def mistakes(scenario: Scenario) -> Iterator[str]:
    """What is wrong with it, one line each."""
    header = scenario.header
    if not HEADER(header):
        yield "line 1: the header has an unknown key, lacks one, or has a value of a wrong type"
        return
    if header["scenario"] != scenario.name:
        yield f"line 1: `scenario` is {header['scenario']!r}, not the file's name"
    if not re.fullmatch("[a-z0-9]+(-[a-z0-9]+)*", scenario.name):
        yield "the name is not in kebab-case"
    if not header["about"].endswith(".") or len(header["about"]) > 200:
        yield "line 1: `about` is a sentence of at most 200 characters"
    count, own = scenario.world["shard_count"], scenario.world["shards"]
    named: set[str] = set()
    for number, step in enumerate(scenario.steps, 2):
        if not is_step(step):
            yield f"line {number}: no such step, or with a wrong key or value: {step}"
            continue
        if "world" in step:
            count, own = step["world"].get("shard_count", count), step["world"].get("shards", own)
        if "shard" in step and step["shard"] not in own:
            yield f"line {number}: shard {step['shard']} is not one of {own}"
        if "expect" in step:
            yield from (f"line {number}: {mistake}" for mistake in misplaced(step, count, own))
        if "when" in step and step["when"] not in ("synced", *named):
            yield f"line {number}: no call before this is named {step['when']!r}"
        if "as" in step:
            named.add(step["as"])
        if "delivery" in step and step["delivery"] not in named:
            yield f"line {number}: no call before this is named {step['delivery']!r}"
        if step.get("expect") == "PUT /bot/heartbeat" and "heartbeats" not in header:
            yield f"line {number}: heartbeats are expected only if the header says so"
    if not any("expect" in step for step in scenario.steps):
        yield "it expects nothing"


def misplaced(step: Json, count: int, own: list[int]) -> Iterator[str]:
    """Lines about guilds that do not belong where they are."""
    match = SNAPSHOT.fullmatch(step["expect"])
    if match:
        if (int(match[1]), int(match[2])) not in [(count, shard) for shard in own]:
            yield f"the process does not have shard {match[2]} of {match[1]}"
        if step["sequence"] < 2:
            yield "a snapshot's number is at least 2"
    for line in step.get("lines", []):
        guild = line.get("guild", line.get("id") if match or line.get("type", "").startswith("guild") else None)
        if guild is None:
            continue
        shard = shard_of(guild, count)
        if shard not in own or (match and shard != int(match[2])):
            yield f"guild {guild} is of shard {shard}"
