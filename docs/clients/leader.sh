#!/bin/sh
# Works only while Baton promises that this replica leads. Usage: leader.sh [http://127.0.0.1:4040/leader/scheduler]
set -u
url=${1:-http://127.0.0.1:4040/leader/scheduler}
step_max_ms=200 # the longest that one step of the work takes

# Milliseconds since the machine started. Goes on while it sleeps, and nobody sets it, unlike `date`.
now() {
    read -r uptime _ </proc/uptime
    echo "${uptime%.*}${uptime#*.}0"
}

call() { curl --silent --fail --noproxy '*' --max-time 1 "$@"; }

# A number in a flat JSON object on standard input; 0 when there is none.
number() { sed -n "s/.*\"$1\": *\([0-9][0-9]*\).*/\1/p" | grep . || echo 0; }

step() {
    echo "acting with token $1" # hand the token to whatever is written to: it refuses smaller ones
    sleep 0.05
}

stopping=
led=
trap 'stopping=yes' TERM
while [ -z "$stopping" ]; do
    sent=$(now) # the promise counts from before the request, however long the answer takes
    answer=$(call "$url") || answer= # no answer means: not the leader
    if echo "$answer" | grep -q '"leader": *true'; then
        token=$(echo "$answer" | number token)
        until=$((sent + $(echo "$answer" | number valid_for_ms)))
        if [ $(($(now) + step_max_ms)) -lt "$until" ]; then
            led=yes
            step "$token"
            continue
        fi
    elif [ -n "$led" ]; then
        led=
        call --request POST "$url/drained" >/dev/null # stopped: the next leader need not wait for the promise's end
    fi
    sleep 0.2
done
if [ -n "$led" ]; then
    call --request POST "$url/resign" >/dev/null
    call --request POST "$url/drained" >/dev/null
fi
exit 0
