#!/usr/bin/env python3
"""One replica's worker: while Baton promises that this replica leads, it writes to the ledger, step by step.

Where to ask is in BATON_LEADER_URL, where to write in LEDGER_URL, the rest between two steps in PAUSE_SECONDS.
"""
import json, os, signal, time, urllib.error, urllib.request

LEADER_URL = os.environ["BATON_LEADER_URL"]
LEDGER_URL = os.environ["LEDGER_URL"]
PAUSE_S = float(os.environ.get("PAUSE_SECONDS", "1"))
STEP_MAX_S = 1.0  # the longest that one step takes; a promise (answerValidity) must be longer, or none is ever begun
HTTP = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # neither is behind a proxy
stopping = False


def now():
    return time.clock_gettime(time.CLOCK_BOOTTIME)  # goes on while the machine sleeps, and nobody sets it


def ask():
    """The token and until when it may be used. No answer, or a strange one, means: not the leader."""
    sent = now()  # the promise counts from before the request, however long the answer takes
    try:
        with HTTP.open(LEADER_URL, timeout=1) as response:
            answer = json.load(response)
        if answer["leader"] is True:
            return answer["token"], sent + answer["valid_for_ms"] / 1000
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None, 0.0


def step(token):
    """The work. The ledger is told the token, and refuses it if a later leader has written already."""
    entry = json.dumps({"token": token, "text": f"written by {os.uname().nodename}"}).encode()
    try:
        with HTTP.open(urllib.request.Request(LEDGER_URL, entry, method="POST"), timeout=STEP_MAX_S * 0.8) as response:
            print(f"entry {json.load(response)['number']}, token {token}")
    except urllib.error.HTTPError as error:
        print(f"refused: {error.code}, token {token}")  # 409: another leads since; the next answer will say so
    except (OSError, ValueError, KeyError) as error:
        print(f"the ledger: {error}")  # written or not: the next step is another entry


def tell(word):
    """`resign` or `drained`. A refusal only means that there was nothing to hand over."""
    try:
        HTTP.open(urllib.request.Request(f"{LEADER_URL}/{word}", method="POST"), timeout=1).close()
    except OSError:
        pass


def stop(_signal, _frame):
    global stopping
    stopping = True


signal.signal(signal.SIGTERM, stop)
led = False
while not stopping:
    token, until = ask()
    if token is not None and now() + STEP_MAX_S < until:
        if not led:
            print(f"leads with token {token}")
        led = True
        step(token)
        time.sleep(PAUSE_S)
        continue
    if led and token is None:
        led = False
        print("leads no longer")
        tell("drained")  # the work has stopped: the next leader need not wait for the promise to run out
    time.sleep(0.2)
if led:
    tell("resign")
    tell("drained")
