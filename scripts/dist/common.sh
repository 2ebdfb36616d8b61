# What the scripts that build packages share. A script sources this after scripts/bootstrap.sh.
#
# shellcheck shell=bash

# Everything in a package is as old as the last commit, and nobody's own, so that two runs give the same bytes.
SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}"
export SOURCE_DATE_EPOCH
umask 022

fail() {
    echo "$1" >&2
    exit 1
}
