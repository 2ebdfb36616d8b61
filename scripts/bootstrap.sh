# Shared by the scripts: the build, Python environments, packages, a work folder, and a running service. Source this after changing to the
# repository's root.
#
# shellcheck shell=bash

# The build's folder.
mkdir -p "${CARGO_TARGET_DIR:-target}"
target=$(realpath "${CARGO_TARGET_DIR:-target}")

# Exports BOT_COMPANION, the absolute path of the binary to test, building it if it isn't set. Arguments go to cargo.
build_service() {
    if [ -z "${BOT_COMPANION:-}" ]; then
        cargo build --locked -p bot-companion "$@"
        BOT_COMPANION="$target/debug/bot-companion"
        if [ "${1:-}" = --release ]; then BOT_COMPANION="$target/release/bot-companion"; fi
    fi
    BOT_COMPANION=$(realpath "$BOT_COMPANION")
    export BOT_COMPANION
}

# Sets `binaries` to the folder with the release binaries of these packages, building them unless BENCH_BINARIES names it.
build_release() {
    binaries="${BENCH_BINARIES:-}"
    if [ -z "$binaries" ]; then
        cargo build --release --locked "${@/#/--package=}"
        binaries="$target/release"
    fi
}

# make_environment FOLDER ARGUMENT…: creates a Python environment once, with these arguments for `pip install`.
make_environment() {
    local folder=$1
    shift
    if [ ! -e "$folder/complete" ]; then
        rm -rf "$folder"
        "${PYTHON:-python3}" -m venv "$folder"
        "$folder/bin/pip" install --quiet --disable-pip-version-check "$@"
        touch "$folder/complete"
    fi
}

# A name for the environment that these files describe; another interpreter, or other files, give another name.
stamp() {
    { "${PYTHON:-python3}" --version && cat "$@"; } | sha256sum | cut -c 1-16
}

# Sets `environment` to the one with the Python SDK, the fake Discord, and what their tests need.
make_sdk_environment() {
    environment="$target/sdk-python/environment-$(stamp sdk/python/pyproject.toml sdk/fake-discord/pyproject.toml)"
    make_environment "$environment" -e 'sdk/fake-discord[test]' -e 'sdk/python[test]'
}

# install_packages_of FOLDER: installs what the folder's package-lock.json names, unless that has been done.
install_packages_of() {
    local sum
    sum=$(sum "$1"/package*.json)
    if [ "$(cat "$1/node_modules/.complete" 2>/dev/null)" != "$sum" ]; then
        (cd "$1" && npm ci --silent)
        echo "$sum" >"$1/node_modules/.complete"
    fi
}

# Installs Debian packages if that is possible without asking; otherwise says what to install.
install_packages() {
    local as_root=()
    if [ "$(id -u)" -ne 0 ]; then as_root=(sudo -n); fi
    if ! command -v apt-get >/dev/null || ! "${as_root[@]}" true 2>/dev/null; then
        echo "please install these Debian packages, or their equivalents: $*" >&2
        return 1
    fi
    echo "installing $*" >&2
    "${as_root[@]}" apt-get update -qq >&2
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >&2
}

# need_node [VERSION]: makes sure that `node` has at least this version, by default the oldest that the JavaScript SDK supports. If the
# system's is too old, a newer one is installed as a package.
need_node() {
    if ! printf '%s\n' "${1:-20}" "$(node -p process.versions.node 2>/dev/null || echo 0)" | sort --check=quiet --version-sort; then
        local newer="$target/sdk-js/node"
        [ -x "$newer/node_modules/.bin/node" ] || npm install --silent --no-save --prefix "$newer" node@22
        export PATH="$newer/node_modules/.bin:$PATH"
    fi
}

# Makes sure that a program exists that has the same name as its package.
need_program() {
    command -v "$1" >/dev/null || install_packages "$1"
}

# Sets `oha` to the benchmarks' load generator, building it once, which takes minutes.
need_oha() {
    local version=1.16.0
    oha="$target/tools/oha-$version/bin/oha"
    if [ ! -x "$oha" ]; then cargo install --quiet --locked --root "$target/tools/oha-$version" "oha@$version"; fi
}

# Exports CHROMIUM, the browser, unless it is set.
need_chromium() {
    if [ -z "${CHROMIUM:-}" ]; then
        need_program chromium
        CHROMIUM=$(command -v chromium)
    fi
    export CHROMIUM
}

# copy_folder FOLDER: copies a folder of the repository to `copy`, without its build output. What was installed or built in an earlier
# copy stays.
copy_folder() {
    local folder=$1
    mkdir -p "$copy/$folder"
    find "$copy/$folder" -mindepth 1 -maxdepth 1 ! -name node_modules ! -name dist ! -name build ! -name .next ! -name .svelte-kit ! -name '.stamp-*' -exec rm -rf {} +
    (cd "$folder" && tar --exclude=./node_modules --exclude=./dist --exclude=./target --exclude=./build --exclude=./data --exclude=./.next --exclude=./.svelte-kit -cf - .) |
        tar -xf - -C "$copy/$folder"
}
# once NAME TEXT FOLDER COMMAND…: runs the command in the folder below `copy`, unless it already ran there for the same text: `npm ci`
# needs no second run if nothing has changed.
once() {
    local name=$1 text=$2 folder=$copy/$3
    shift 3
    if [ "$(cat "$folder/.stamp-$name" 2>/dev/null)" = "$text" ]; then return; fi
    rm -f "$folder/.stamp-$name"
    (cd "$folder" && "$@")
    echo "$text" >"$folder/.stamp-$name"
}
# A sum of these files and the version of Node.
sum() { { node --version && cat "$@"; } | sha256sum | cut -c 1-16; }

# Copies the browser tests, and installs what they need.
copy_browser_tests() {
    copy="$target/web-examples"
    copy_folder tests/browser
    copy_folder examples/brands
    once install "$(sum tests/browser/package*.json)" tests/browser npm ci --silent
}

# field NAME: a text from the line of JSON printed by `dev`.
field() {
    sed -nE "s/.*\"$1\":\"([^\"]*)\".*/\1/p" "$work/dev.json"
}

# Sets `work` to a new folder. When the script ends, all processes in `started` are stopped and the folder is removed.
started=()
make_work_folder() {
    work=$(mktemp -d)
    trap clean_up EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
}
clean_up() {
    local process
    for process in "${started[@]}"; do stop "$process"; done
    rm -rf "$work"
}
# Stops one of the processes in `started`.
stop() {
    local process=$1 others=() each
    for each in "${started[@]}"; do
        if [ "$each" != "$process" ]; then others+=("$each"); fi
    done
    started=("${others[@]}")
    kill "$process" 2>/dev/null || true
    wait "$process" 2>/dev/null || true
}

# start_dev BINARY [ARGUMENT…]: starts the service with its sandbox and without limits on a free port, and waits until it listens.
# Sets `service` (its process), `url`, `admin`, `bot_key`, and `log` and `data`, unless they are set already.
start_dev() {
    local binary=$1 _
    shift
    log="${log:-$work/service.log}"
    data="${data:-$work/data}"
    # The service may not have created it yet.
    : >"$work/dev.json"
    "$binary" dev --json --no-limits --listen 127.0.0.1:0 --data "$data" "$@" >"$work/dev.json" 2>"$log" &
    service=$!
    started+=("$service")
    for _ in $(seq 3000); do
        # shellcheck disable=SC2034
        url=$(field service) admin=$(field admin) bot_key=$(field bot_key)
        if [ -n "$url" ] && [ -n "$bot_key" ]; then return; fi
        if ! kill -0 "$service" 2>/dev/null; then break; fi
        sleep 0.1
    done
    echo "the service did not start:" >&2
    tail -n 20 "$log" >&2
    exit 1
}
