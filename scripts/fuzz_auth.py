"""What the API fuzzer needs to know about sessions and keys: every call gets a valid token or the demo bot's key, and an
ended session a successor.

Run as a program with an address, it tells by its exit code whether a service with an OpenAPI document answers there.
"""

import atexit
import json
import os
import sys
import urllib.request

WAIT = 10


def sign_in(base):
    request = urllib.request.Request(f"{base}/auth", method="POST", headers={"Idp-Code": "owner"})
    with urllib.request.urlopen(request, timeout=WAIT) as response:
        return json.load(response)["data"]["token"]


def install_hooks(base):
    import schemathesis

    state = {"token": None, "calls": 0}

    # Without a cache of its own: it would keep a token that a generated call has just ended.
    @schemathesis.auth(refresh_interval=None)
    class SessionToken:
        def get(self, case, context):
            if state["token"] is None:
                state["token"] = sign_in(base)
            return state["token"]

        def set(self, case, data, context):
            case.headers = case.headers or {}
            if case.path.startswith("/bot/"):
                case.headers["Authorization"] = f"Bearer {os.environ['FUZZ_BOT_KEY']}"
            else:
                case.headers["Token"] = data

    # Lines are sent as they were generated; the library knows no such type.
    @schemathesis.serializer("application/x-ndjson")
    def ndjson(context, value):
        return value.encode() if isinstance(value, str) else json.dumps(value).encode()

    @schemathesis.hook
    def after_call(context, case, response):
        state["calls"] += 1
        if case.method.upper() == "DELETE" and response.status_code == 200:
            state["token"] = None

    @atexit.register
    def report():
        with open(os.environ["FUZZ_COUNT"], "a", encoding="utf-8") as count:
            count.write(f"{state['calls']}\n")


if __name__ == "__main__":
    with urllib.request.urlopen(f"{sys.argv[1]}/openapi.json", timeout=WAIT) as document:
        sys.exit(0 if "paths" in json.load(document) else 1)
else:
    install_hooks(os.environ["FUZZ_URL"])
