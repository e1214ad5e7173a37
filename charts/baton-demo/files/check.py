#!/usr/bin/env python3
"""Is there exactly one leader, and does the ledger's token only rise? Usage: check.py ROLE LEDGER-URL HOST:PORT…

Every address of a HOST is asked. Ends with 0 as soon as both are so, with 1 when they are not within a minute.
"""
import json, socket, sys, time, urllib.error, urllib.request

ROLE, LEDGER_URL, *WORKERS = sys.argv[1:]
HTTP = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def addresses():
    found = set()
    for worker in WORKERS:
        host, port = worker.rsplit(":", 1)
        found.update((info[4][0], int(port)) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    return sorted(found)


def leads(host, port):
    host = f"[{host}]" if ":" in host else host
    try:
        HTTP.open(f"http://{host}:{port}/leading/{ROLE}", timeout=2).close()
        return True
    except urllib.error.HTTPError as error:
        error.close()
        if error.code != 503:
            raise
        return False


def look():
    """What is found, and whether it is as it should be."""
    leaders = [f"{host}:{port}" for host, port in addresses() if leads(host, port)]
    with HTTP.open(LEDGER_URL, timeout=2) as response:
        tokens = [entry["token"] for entry in json.load(response)]
    good = len(leaders) == 1 and tokens != [] and tokens == sorted(tokens)
    return good, f"leaders: {leaders or 'none'}; ledger: {len(tokens)} entries, tokens {sorted(set(tokens))}"


ends = time.monotonic() + 60
good, found = False, "nothing yet"
while not good and time.monotonic() < ends:
    try:
        good, found = look()
    except (OSError, ValueError, KeyError) as error:
        found = str(error)
    if not good:
        time.sleep(0.5)
print(found)
sys.exit(0 if good else 1)
