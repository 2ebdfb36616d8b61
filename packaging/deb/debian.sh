# Shared by the tests of the Debian package: a clean Debian booted by systemd. Source it after scripts/bootstrap.sh and
# packaging/sign-in.sh, as root.
#
#   BOT_COMPANION  package and test this binary; if unset, tests the package in dist/, or builds one
#   DIST           the folder with the package (dist)
#   SUITE          the Debian release to test in (bookworm)
#
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154

export DEBIAN_FRONTEND=noninteractive
url=http://127.0.0.1:8080
configuration=/etc/bot-companion/companion.toml

# Sets `package` to the Debian package, in `packages`, and `new` to its version. Exports BOT_COMPANION, the binary in it.
take_package() {
    local finished
    packages="$work/packages"
    mkdir "$packages"
    finished=$(find "${DIST:-dist}" -name 'bot-companion_*_amd64.deb' 2>/dev/null || true)
    if [ -z "${BOT_COMPANION:-}" ] && [ -n "$finished" ]; then
        package="$packages/$(basename "$finished")"
        cp "$finished" "$package"
        dpkg-deb --extract "$package" "$work/extracted"
        export BOT_COMPANION="$work/extracted/usr/bin/bot-companion"
    else
        build_service --release
        package=$(DIST="$packages" packaging/deb/build)
    fi
    new=$(dpkg-deb --field "$package" Version)
}

# Boots a Debian that has only what systemd and the package need. The tree is rebuilt once a week.
boot_debian() {
    local suite=${SUITE:-bookworm} depends tree outer
    depends=$(dpkg-deb --field "$package" Depends | sed -E 's/ \([^)]*\)//g; s/ //g')
    tree="$target/dist/debian-$suite-$(sha256sum <<<"$depends" | cut -c 1-8).tar"
    if [ -z "$(find "$tree" -mtime -7 2>/dev/null)" ]; then
        mkdir -p "$target/dist"
        mmdebstrap --quiet --variant=minbase --include="systemd-sysv,dbus,$depends" "$suite" "$tree.part.tar"
        mv "$tree.part.tar" "$tree"
    fi
    mkdir "$work/tree"
    tar --extract --file "$tree" --directory "$work/tree"

    # It has its own network, so no port is in use. This is the longest to wait for it.
    timeout --kill-after=30 1200 systemd-nspawn --quiet --keep-unit --register=no --private-network --machine "bot-companion-$$" \
        --directory "$work/tree" --bind-ro="$packages:/packages" --boot >"$work/boot.log" 2>&1 </dev/null &
    outer=$!
    started+=("$outer")
    leader() { pgrep --parent "$(pgrep --parent "$outer" --full systemd-nspawn)"; }
    eventually 'the start of the Debian tree' leader
    init=$(leader)
    # "degraded" means that one of Debian's own units does not work here.
    is_booted() { [[ "$(inside systemctl is-system-running)" =~ ^(running|degraded)$ ]]; }
    eventually 'the boot of the Debian tree' is_booted
    in_network=(nsenter --target "$init" --net --)
}

# inside COMMAND…: runs it in the booted Debian.
inside() { timeout --kill-after=10 300 nsenter --target "$init" --mount --uts --ipc --net --pid -- "$@"; }
# install_version VERSION
install_version() { inside apt-get install --yes --quiet=2 "/packages/bot-companion_$1_amd64.deb" >"$work/apt.log" 2>&1 || { cat "$work/apt.log" >&2; fail "$1 cannot be installed"; }; }
# expect WHAT COMMAND…
expect() {
    local what=$1
    shift
    "$@" || { inside journalctl --no-pager --lines 30 --unit bot-companion >&2 || true; fail "this is not so: $what"; }
}
state() { inside systemctl is-active bot-companion || true; }
process() { inside systemctl show --property MainPID --value bot-companion; }
answers() { fetch "$url/ready"; }
# companion COMMAND…: runs a command of the service as its user.
companion() { inside runuser -u bot-companion -- bot-companion "$@" --config "$configuration"; }

# Configures the unit as the package's README says, with a provider of our own, and starts it.
start_unit() {
    inside sh -c 'echo not-a-secret | install -m 640 -g bot-companion /dev/stdin /etc/bot-companion/client-secret'
    start_provider
    inside sed --in-place "s|^\[idp\]|&\nbase_url = \"$provider\"|" "$configuration"
    inside systemctl enable --quiet --now bot-companion
    eventually 'the start of the service' answers
}
