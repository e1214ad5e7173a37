#!/usr/bin/env bash
# Types the README's "Try it" commands as a new user would, in a fresh clone of what is committed: three replicas, one
# leader; it hands over; SIGTERM ends all. The commands are read from the README, so that they cannot drift apart.
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
folder=$(mktemp -d)
baton=
finish() {
    if [ -n "$baton" ]; then kill -KILL "$baton" 2>/dev/null || true; fi
    rm -rf "$folder"
}
trap finish EXIT

fail() {
    echo "e2e: $*" >&2
    sed 's/^/  baton: /' "$folder/output" >&2 2>/dev/null || true
    exit 1
}

# The commands of the n-th shell block after "## Try it".
block() {
    awk -v wanted="$1" '/^## /{part=$0} part=="## Try it" && /^```/{fence=!fence; if(fence) n++; next}
        part=="## Try it" && fence && n==wanted' README.md
}

# "PORT TOKEN" of each replica that leads.
leaders() {
    for port in 4040 4041 4042; do
        curl --silent --noproxy '*' --max-time 2 "http://localhost:$port/leader" | python3 -c '
import json, sys
answer = json.load(sys.stdin)
if answer["leader"]: print(sys.argv[1], answer["token"])' "$port" 2>/dev/null || true
    done
}

# Waits until exactly one replica leads and sets $port and $token; $1: seconds, $2: a port that it must not be.
one_leader() {
    local ends=$((SECONDS + $1)) found
    while [ "$SECONDS" -lt "$ends" ]; do
        kill -0 "$baton" 2>/dev/null || fail "it ended by itself"
        found=$(leaders)
        if [ "$(grep -c . <<<"$found")" -eq 1 ] && read -r port token <<<"$found" && [ "$port" != "${2:-}" ]; then
            return
        fi
        sleep 0.1
    done
    fail "not one leader after $1 s, but: ${found:-none}"
}

git clone --quiet "$top" "$folder/clone"
cd "$folder/clone"
export CARGO_TARGET_DIR=$top/target/e2e # the second time is quick
[ -n "$(block 1)" ] && [ -n "$(block 2)" ] || fail "the README has no two blocks under \"Try it\""

cargo build
echo "\$ $(block 1)"
# cargo replaces itself by the program, so this is its process.
bash -c "exec $(block 1)" >"$folder/output" 2>&1 </dev/null &
baton=$!
one_leader 120
first_port=$port first_token=$token
echo "leads: port $first_port, token $first_token"

block 2 | sed 's/^/$ /'
bash -euo pipefail -c "$(block 2)" || fail "the second block ended with $?"
one_leader 30 "$first_port"
echo "leads: port $port, token $token"
[ "$token" -gt "$first_token" ] || fail "the token did not rise"

kill -TERM "$baton"
code=0
timeout 60 tail --pid="$baton" -f /dev/null || fail "SIGTERM did not end it"
wait "$baton" || code=$?
baton=
[ "$code" -eq 0 ] || fail "it ended with $code"
echo "e2e: the README's commands do what it says"
