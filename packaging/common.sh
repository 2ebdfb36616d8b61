# Shared by the scripts that build packages. Source it after scripts/bootstrap.sh, which provides `target` and `work`.
#
#   DIST  the folder to write to (dist)
#
# shellcheck shell=bash
# shellcheck disable=SC2154

dist="${DIST:-dist}"
mkdir -p "$dist"
dist=$(realpath "$dist")
version=$(scripts/version)

# Everything in a package has the time of the last commit and no owner, so that two runs give the same bytes.
SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}"
export SOURCE_DATE_EPOCH
umask 022

fail() {
    echo "$1" >&2
    exit 1
}

# Exports BOT_COMPANION, the absolute path of the binary to package, building it if it isn't set.
take_binary() {
    local built
    if [ -z "${BOT_COMPANION:-}" ]; then BOT_COMPANION="$(packaging/binary)/bot-companion"; fi
    BOT_COMPANION=$(realpath "$BOT_COMPANION")
    export BOT_COMPANION
    built=$("$BOT_COMPANION" --version)
    if [ "$built" != "bot-companion $version" ]; then fail "$BOT_COMPANION is $built, but this is version $version"; fi
}

# pack_folder FOLDER FILE: makes a compressed archive of a folder in `work`.
pack_folder() {
    tar --create --directory "$work" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=ustar "$1" | gzip --best --no-name >"$2"
}

# copy_licenses FOLDER: puts the licences of our own code and of the libraries into a package.
copy_licenses() {
    local texts
    texts="$target/dist/third-party-$(stamp Cargo.lock packaging/sbom/build).txt"
    if [ ! -e "$texts" ]; then
        packaging/sbom/build --licenses "$texts.new"
        mv "$texts.new" "$texts"
    fi
    install -m 644 LICENSE "$1"
    install -m 644 "$texts" "$1/THIRD-PARTY-LICENSES.txt"
}

# check_contents PACKAGE EXPECTED NEEDED…: reads the paths in a package, one per line. All must match the expected pattern, and
# files with the needed names must be among them.
check_contents() {
    local package=$1 expected=$2 list unexpected needed
    shift 2
    list=$(cat)
    unexpected=$(grep -vE "^($expected)\$" <<<"$list" || true)
    if [ -n "$unexpected" ]; then fail "$package contains what is not expected there:
$unexpected"; fi
    for needed in "$@"; do
        grep -qE "/$needed\$" <<<"$list" || fail "$package contains no $needed"
    done
}

# The tools that build and check Python packages, in `tools`.
make_python_tools() {
    local wanted=(build==1.3.0 hatchling==1.28.0 twine==6.2.0)
    tools="$target/dist/python-$(stamp <(echo "${wanted[@]}"))"
    make_environment "$tools" "${wanted[@]}"
}

# uv, in the environment `uv`.
make_uv() {
    uv="$target/dist/uv-0.13.8"
    make_environment "$uv" uv==0.13.8
}
