#!/usr/bin/env bash
# Runs the fuzzing client of the Autobahn testsuite against the echo server beside this script, and
# holds each case's verdict and the close code it received to expected.json. Everything is installed
# below target/autobahn. Where the suite cannot be had, it says so and is skipped.
#
#   tests/autobahn/run.sh            groups 1 to 7 and 10
#   tests/autobahn/run.sh 9.*        these cases instead; '*' is all of them
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
installed=$target/autobahn

(cd "$root" && cargo build --locked --example autobahn_echo) || exit 1

python2() {
    local candidate
    for candidate in python2.7 "$HOME"/.pyenv/versions/2.7.*/bin/python2.7; do
        if "$candidate" -c '' 2>/dev/null; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    return 1
}

install() { # The suite is a program of Python 2.7, which only old releases of virtualenv serve.
    local python quiet=(--quiet --disable-pip-version-check)
    [ -x "$installed/suite/bin/wstest" ] && return
    python=$(python2) || return 1
    python3 -m venv "$installed/tool" &&
        "$installed/tool/bin/pip" install "${quiet[@]}" 'virtualenv==20.21.1' &&
        "$installed/tool/bin/virtualenv" --quiet --python "$python" "$installed/suite" &&
        "$installed/suite/bin/pip" install "${quiet[@]}" 'autobahntestsuite==25.10.1'
}

if ! install; then
    echo 'autobahn: skipped, the suite could not be installed'
    exit 0
fi
[ $# -gt 0 ] || set -- '1.*' '2.*' '3.*' '4.*' '5.*' '6.*' '7.*' '10.*'
exec python3 "$here/run.py" "$target/debug/examples/autobahn_echo" \
    "$installed/suite/bin/wstest" "$installed/report" "$@"
