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


def main():
    host, port = sys.argv[2].split(":")
    client = redis.Redis(host, int(port), max_connections=256)
    print("ready", flush=True)
    for order in sys.stdin:
        run(client, order)


main()
