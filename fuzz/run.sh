#!/usr/bin/env bash
# Runs fuzz targets, each for the given time, and prints a row for each of them:
#
#     fuzz/run.sh SECONDS [TARGET...]
#
# All of them if none is named. What is found goes to fuzz/corpus/TARGET, an input that breaks
# something to fuzz/artifacts/TARGET, what the fuzzer said to fuzz/logs/TARGET; none of these is in
# the repository. JOBS targets run at a time (one for each processor). The exit status is 1 if
# anything broke.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:?usage: fuzz/run.sh SECONDS [TARGET...]}
shift
# The two machines and what reads a peer's bytes come first.
targets=("$@")
if [ $# -eq 0 ]; then
    targets=(connection agent ws_frames request_head response response_body log_segment answer
        sse deltas client_frame server_frame log_line event_envelope event_payload history config
        json_document json_string fnmatch percent_decoding)
fi

cargo +nightly fuzz build >&2
release=fuzz/target/$(rustc +nightly -vV | sed -n 's/^host: //p')/release
mkdir -p fuzz/logs

# A script for a machine says enough in little; a document needs room.
longest() {
    case $1 in
        request_head) echo 8400 ;;
        config | answer | json_document | ws_frames) echo 4096 ;;
        agent | fnmatch | percent_decoding | deltas) echo 256 ;;
        *) echo 1024 ;;
    esac
}

words() {
    case $1 in
        request_head | response | response_body | connection) echo -dict=fuzz/dict/http ;;
        client_frame | server_frame | answer | sse | config | json_document | json_string | event_* | log_line)
            echo -dict=fuzz/dict/json ;;
    esac
}

fuzz() {
    mkdir -p "fuzz/corpus/$1" "fuzz/artifacts/$1"
    # shellcheck disable=SC2046
    "$release/$1" "fuzz/corpus/$1" "fuzz/seeds/$1" -max_total_time="$seconds" \
        -max_len="$(longest "$1")" $(words "$1") -timeout=25 -rss_limit_mb=2048 \
        -artifact_prefix="fuzz/artifacts/$1/" -print_final_stats=1 >"fuzz/logs/$1" 2>&1 || true
}

for target in "${targets[@]}"; do
    while [ "$(jobs -pr | wc -l)" -ge "${JOBS:-$(nproc)}" ]; do wait -n; done
    fuzz "$target" &
done
wait

row='%-18s %8s %12s %9s %7s %9s %7s %9s\n'
# shellcheck disable=SC2059
printf "$row" target seconds executions 'a second' edges features corpus findings
status=0
for target in "${targets[@]}"; do
    log=fuzz/logs/$target
    # "#123	DONE   cov: 1 ft: 2 corp: 3/4b ...", or the last line before a crash.
    read -r edges features corpus <<<"$(sed -nE \
        's/^#.*cov: ([0-9]+) ft: ([0-9]+) corp: ([0-9]+).*/\1 \2 \3/p' "$log" | tail -n 1)"
    ran=$(sed -nE 's/^Done [0-9]+ runs in ([0-9]+) second.*/\1/p' "$log")
    runs=$(sed -nE 's/^stat::number_of_executed_units: *//p' "$log")
    rate=$(sed -nE 's/^stat::average_exec_per_sec: *//p' "$log")
    findings=$(sed -nE 's/.*Test unit written to //p' "$log" | wc -l)
    [ -n "$ran" ] && [ "$findings" = 0 ] || status=1
    # shellcheck disable=SC2059
    printf "$row" "$target" "${ran:-broke}" "${runs:-?}" "${rate:-?}" "${edges:-?}" \
        "${features:-?}" "${corpus:-?}" "$findings"
done
exit "$status"
