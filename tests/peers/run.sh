#!/usr/bin/env bash
# Runs the server against peers that share no code with it: WebSocket clients from PyPI and npm,
# Prometheus's parser, nginx and HAProxy in front of it, and OpenAI-compatible servers as its model
# provider. Everything is installed below target/peers. A peer that cannot be installed is skipped and
# says so.
#
#   tests/peers/run.sh                       all that install within a minute or two
#   tests/peers/run.sh node_ws               only those named
#   tests/peers/run.sh llama_cpp_provider    builds llama.cpp, once: half an hour on two cores
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
installed=$target/peers
. "$root/tests/debian.sh"
passed=0 failed=0 skipped=0

(cd "$root" && cargo build --locked) || exit 1
export TERRET_WS=$target/debug/terret-ws
# The checks leave nothing behind in the source tree.
export PYTHONDONTWRITEBYTECODE=1

# Each of these leaves the command to run in `peer`, or fails where the peer cannot be had.

venv() { # venv NAME PACKAGE...
    local folder=$installed/$1
    shift
    [ -x "$folder/bin/python" ] || python3 -m venv "$folder" || return 1
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check "$@" || return 1
    peer=("$folder/bin/python")
}

python_websockets() {
    venv websockets 'websockets==16.0' && peer+=("$here/python_websockets.py")
}

npm_packages() { # npm_packages NAME PACKAGE...
    local folder=$installed/$1
    shift
    mkdir -p "$folder" &&
        npm install --silent --no-fund --no-audit --prefix "$folder" "$@"
}

node_ws() {
    npm_packages node 'ws@8.20.0' || return 1
    peer=(env "NODE_PATH=$installed/node/node_modules" node "$here/node_ws.cjs")
}

prometheus_parser() {
    venv prometheus 'websockets==16.0' 'prometheus-client==0.22.1' &&
        peer+=("$here/prometheus_parser.py")
}

proxy() { # proxy KIND PACKAGE...
    local program
    debian "$@" && command -v openssl >/dev/null && venv websockets 'websockets==16.0' &&
        peer=(env "LD_LIBRARY_PATH=$debian/usr/lib/$(uname -m)-linux-gnu"
            "${peer[@]}" "$here/proxy.py" "$1" "$program" openssl)
}

nginx_proxy() {
    proxy nginx nginx
}

haproxy_proxy() {
    proxy haproxy haproxy liblua5.3-0
}

litellm_provider() {
    # The client half of this test is the one above: only its provider is new.
    venv litellm 'websockets==16.0' 'litellm[proxy]==1.63.11' && peer+=("$here/litellm_provider.py")
}

aimock_provider() {
    npm_packages aimock '@copilotkit/aimock@1.43.0' && venv websockets 'websockets==16.0' &&
        peer+=("$here/aimock_provider.py"
            "$installed/aimock/node_modules/@copilotkit/aimock/dist/cli.js")
}

llama_cpp_provider() {
    # For any processor, and without what reads images.
    CMAKE_ARGS='-DGGML_NATIVE=OFF -DMTMD_BUILD=OFF' venv llama_cpp 'websockets==16.0' \
        'gguf==0.19.0' 'llama-cpp-python[server]==0.3.36' &&
        peer+=("$here/llama_cpp_provider.py" "$installed/llama_cpp/tiny.gguf")
}

run() {
    local name=$1
    local peer=()
    printf -- '-- %s\n' "$name"
    if ! "$name"; then
        printf '%s: skipped, the peer could not be installed\n' "$name"
        skipped=$((skipped + 1))
    elif timeout 300 "${peer[@]}" </dev/null; then
        printf '%s: passed\n' "$name"
        passed=$((passed + 1))
    else
        printf '%s: FAILED\n' "$name"
        failed=$((failed + 1))
    fi
}

[ $# -gt 0 ] || set -- python_websockets node_ws prometheus_parser nginx_proxy haproxy_proxy \
    litellm_provider aimock_provider
for name in "$@"; do
    run "$name"
done
printf 'peers: %d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" -eq 0 ]
