#!/usr/bin/env python3
"""Works only while Baton promises that this replica leads. Usage: leader.py [http://127.0.0.1:4040/leader/scheduler]"""
import http.client, json, signal, sys, time, urllib.request

URL = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:4040/leader/scheduler"
STEP_MAX_S = 0.2  # the longest that one step of the work takes
LOOPBACK = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # http_proxy is not for the sidecar
stopping = False


def now():
    return time.clock_gettime(time.CLOCK_BOOTTIME)  # goes on while the machine sleeps


def ask():
    """The token and until when it may be used. No answer, or a strange one, means: not the leader."""
    sent = now()  # the promise counts from before the request, however long the answer takes
    try:
        with LOOPBACK.open(URL, timeout=1) as response:
            answer = json.load(response)
        if answer["leader"] is True:
            return answer["token"], sent + answer["valid_for_ms"] / 1000
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        pass
    return None, 0.0


def tell(word):
    """`resign` or `drained`. A refusal only means that there was nothing to hand over."""
    try:
        LOOPBACK.open(urllib.request.Request(f"{URL}/{word}", method="POST"), timeout=1).close()
    except (OSError, http.client.HTTPException):
        pass


def step(token):
    print(f"acting with token {token}", flush=True)  # hand the token to whatever is written to: it refuses smaller ones
    time.sleep(0.05)


def stop(_signal, _frame):
    global stopping
    stopping = True


signal.signal(signal.SIGTERM, stop)
led = False
while not stopping:
    token, until = ask()
    if token is not None and now() + STEP_MAX_S < until:
        led = True
        step(token)
        continue
    if led and token is None:
        led = False
        tell("drained")  # the work has stopped: the next leader need not wait for the promise to run out
    time.sleep(0.2)
if led:
    tell("resign")
    tell("drained")
