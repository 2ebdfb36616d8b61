# Shared by the package tests. Source it after scripts/bootstrap.sh.
#
# shellcheck shell=bash

fail() {
    echo "$1" >&2
    exit 1
}

# Fetches without a proxy and never hangs. If the service has its own network, `in_network` is the command that enters it.
in_network=()
fetch() { "${in_network[@]}" curl --silent --show-error --fail --noproxy '*' --max-time 30 "$@"; }

# eventually WHAT COMMAND…: repeats the command until it succeeds, for two minutes at most.
eventually() {
    local what=$1 end=$((SECONDS + 120))
    shift
    until "$@" >/dev/null 2>&1; do
        if [ "$SECONDS" -ge "$end" ]; then fail "$what did not happen within two minutes"; fi
        sleep 0.1
    done
}

# seconds BEGAN: the time since then, which is from `date +%s%N`.
seconds() {
    local tenths=$((($(date +%s%N) - $1) / 100000000))
    echo "$((tenths / 10)).$((tenths % 10)) s"
}

# sign_in URL CODE: prints the token of a new session.
sign_in() { fetch --request POST --header "Idp-Code: $2" "$1/auth" | grep -oE 'bcs_[0-9A-Za-z]+'; }

# guilds URL TOKEN: prints the guilds of the signed-in user.
guilds() { fetch --header "Token: $2" "$1/guilds"; }

# start_provider: starts an identity provider for a service that isn't `dev`, in the network of `in_network`. Sets `provider` to its URL.
# A code is a number, a dot and anything. Needs `environment` (make_sdk_environment) and `work`.
start_provider() {
    # shellcheck disable=SC2154
    PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=tests/system "${in_network[@]}" "$environment/bin/python" -u - >"$work/provider" <<'PYTHON' &
import asyncio
from cluster.provider import Provider

async def main() -> None:
    provider = Provider()
    await provider.start("127.0.0.1")
    print(provider.url)
    await asyncio.Event().wait()

asyncio.run(main())
PYTHON
    started+=($!)
    eventually 'the start of the identity provider' test -s "$work/provider"
    # shellcheck disable=SC2034
    provider=$(cat "$work/provider")
}
