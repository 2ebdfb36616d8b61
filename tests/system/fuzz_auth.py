"""Schemathesis hooks for `tests/system/fuzz-api`: every call gets a valid session token or the demo bot's key, a session that a call has
ended is replaced, live streams are checked by their first event, and the calls are counted."""

import atexit
import json
import os

import schemathesis
from dev_service import sign_in


def install_hooks(url):
    state = {"token": None, "calls": 0}

    # Without Schemathesis' cache, which would keep using a token that a generated call has just revoked.
    @schemathesis.auth(refresh_interval=None)
    class SessionToken:
        def get(self, case, context):
            if state["token"] is None:
                state["token"] = sign_in(url)
            return state["token"]

        def set(self, case, data, context):
            case.headers = case.headers or {}
            if case.path.startswith("/bot/"):
                case.headers["Authorization"] = f"Bearer {os.environ['FUZZ_BOT_KEY']}"
            else:
                case.headers["Token"] = data

    # Sends the lines as generated, because the library doesn't know the type.
    @schemathesis.serializer("application/x-ndjson")
    def ndjson(context, value):
        return value.encode() if isinstance(value, str) else json.dumps(value).encode()

    @schemathesis.check
    def first_event_names_every_topic(context, response, case):
        if case.method == "GET" and case.path.endswith("/live") and response.status_code == 200:
            assert "\nevent: changed\ndata: " in response.text, "the first event is no `changed`"
            topics = json.loads(response.text.split("data: ")[1])["changed"]
            public = ["status", "team", "feedback", "stats"]
            assert topics == (public if case.path == "/live" else [*public, "guilds", "sessions", "me"])

    @schemathesis.hook
    def after_call(context, case, response):
        state["calls"] += 1
        if case.method.upper() == "DELETE" and response.status_code == 200:
            state["token"] = None

    @atexit.register
    def report():
        with open(os.environ["FUZZ_COUNT"], "a", encoding="utf-8") as count:
            count.write(f"{state['calls']}\n")


install_hooks(os.environ["FUZZ_URL"])
