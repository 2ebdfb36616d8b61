#!/bin/sh
# A second name for the executable next to this file, which may be called through a link.
exec "$(dirname "$(readlink -f "$0")")/bot-companion" "$@"
