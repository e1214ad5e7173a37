"""redis-py's Lock behind the line protocol of ../README.md. Its defaults, besides the lease."""

import sys
import threading
import time

import redis

LEASE_S = 30


def contend(lock, end, rest, cycles, longest, at):
    while (asked := time.monotonic()) < end:
        lock.acquire()
        got = time.monotonic()
        lock.release()
        cycles[at] += got < end
        longest[at] = max(longest[at], got - asked)
        if rest:
            time.sleep(rest)


def run(client, order):
    _, kind, contenders, span_ms, name, rest_ms = order.split()
    contenders, end = int(contenders), time.monotonic() + int(span_ms) / 1000
    cycles, longest, threads = [0] * contenders, [0.0] * contenders, []
    for at in range(contenders):
        lock = client.lock(f"{name}:{at}" if kind == "own" else name, timeout=LEASE_S)
        threads.append(threading.Thread(target=contend, args=(lock, end, int(rest_ms) / 1000, cycles, longest, at)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print("done", max(longest) * 1000, *cycles, flush=True)


def renew(lock, period):
    """Until it is somebody else's, or nobody's."""
    while True:
        time.sleep(period)
        try:
            lock.reacquire()
        except redis.exceptions.LockError:
            return
        except redis.RedisError as error:
            print(error, file=sys.stderr, flush=True)


def hold(client, name, lease):
    """Campaigns, renews three times in a lease, and asks Redis whether the lock is still held."""
    lock = client.lock(name, timeout=lease, thread_local=False)
    held = threading.Event()

    def campaign():
        while True:
            try:
                if lock.acquire():
                    held.set()
                    renew(lock, lease / 3)
            except redis.RedisError as error:
                print(error, file=sys.stderr, flush=True)
                time.sleep(lease / 10)
            held.clear()

    threading.Thread(target=campaign, daemon=True).start()
    print("ready", flush=True)
    for _ in sys.stdin:
        try:
            answer = "yes - -" if held.is_set() and lock.owned() else "no"
        except redis.RedisError:
            answer = "no"
        print(answer, flush=True)


def pretend(client, name, identity, lease):
    """A lock that is broken on purpose: `SET` without `NX`, so that everybody gets it."""
    print("ready", flush=True)
    token = client.incr(f"{name}:token")
    for _ in sys.stdin:
        try:
            print(f"yes {token} -" if client.set(name, identity, px=int(lease * 1000)) else "no", flush=True)
        except redis.RedisError:
            print("no", flush=True)


def main():
    host, port = sys.argv[2].split(":")
    if sys.argv[1] in ("hold", "pretend"):
        name, identity, lease = sys.argv[3], sys.argv[4], int(sys.argv[5]) / 1000
        # Nobody waits for an answer for longer than the lease that it is about.
        client = redis.Redis(host, int(port), socket_timeout=lease, socket_connect_timeout=lease)
        return hold(client, name, lease) if sys.argv[1] == "hold" else pretend(client, name, identity, lease)
    client = redis.Redis(host, int(port), max_connections=256)
    print("ready", flush=True)
    for order in sys.stdin:
        run(client, order)


main()
