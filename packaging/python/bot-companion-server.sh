#!/bin/sh
# The second name of the executable that lies beside this file. This file may be called through a link.
exec "$(dirname "$(readlink -f "$0")")/bot-companion" "$@"
