# Waiting for states, with a bound. Read by up.sh and node.sh.

last_for() { # SECONDS, of a fault
    sleep "$1"
}

wait_for() { # SECONDS COMMAND…
    local ends=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $ends ] || { echo "waited too long: $*" >&2; return 1; }
        sleep 0.1
    done
}
