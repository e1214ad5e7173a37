"""A worker beside whatever hands out the one lock: it asks before each step whether it holds it, and then increments
two registers by reading, working for a moment, and writing.

    worker.py REGISTERS baton URL             a sidecar, asked over HTTP
    worker.py REGISTERS peer COMMAND ARG...   a library's process, asked by `held` (benches/peers/README.md)

REGISTERS is the path of a socket. What happens is told on standard output, a line of JSON each, by the machine's
monotonic clock. It ends with its standard input.
"""

import json
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.request

STEP_S = 0.015
# The longest that a step takes where nothing goes wrong: a claim that ends sooner is none (docs/clients.md).
STEP_MAX_S = 0.1
REST_S = 0.01


def last_for(seconds):
    """The length of a step, whose work is only meant, and of the rest between two."""
    time.sleep(seconds)


def say(what, **fields):
    print(json.dumps({"is": what, **fields}), flush=True)


class Baton:
    def __init__(self, url):
        self.url = url
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def ask(self):
        """The token and the milliseconds that the claim stands; none when it is not held."""
        try:
            with self.opener.open(self.url, timeout=1) as response:
                answer = json.load(response)
        except (OSError, ValueError):
            return None
        return (str(answer["token"]), answer["valid_for_ms"]) if answer["leader"] is True else None


class Peer:
    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.hear("ready")

    def hear(self, first):
        words = self.process.stdout.readline().split()
        if not words or words[0] not in first.split("|"):
            sys.exit(f"the library says {words} where {first} was expected")
        return words

    def ask(self):
        self.process.stdin.write("held\n")
        self.process.stdin.flush()
        words = self.hear("yes|no")
        if words[0] == "no":
            return None
        _, token, left = words
        return token, None if left == "-" else int(left)


class Registers:
    """Read and written together; each fault has registers of its own, the epoch."""

    def __init__(self, path):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(path)
        self.lines = connection.makefile("rw", buffering=1)

    def ask(self, *words):
        self.lines.write(" ".join(map(str, words)) + "\n")
        return self.lines.readline().split()

    def increment(self, token):
        called = time.monotonic_ns()
        # As docs/fencing.md has it, the first thing that a token does is to raise the fence.
        epoch, plain, fenced = self.ask("read", token)
        last_for(STEP_S)
        guarded = int(fenced) if fenced.isdigit() else None
        say("begin", call=called, epoch=int(epoch), plain=int(plain), fenced=guarded)
        after = "-" if guarded is None else guarded + 1
        (told,) = self.ask("write", epoch, int(plain) + 1, after, token)
        say("end", back=time.monotonic_ns(), accepted=told == "accepted")


def end_with_input():
    sys.stdin.read()
    os._exit(0)


def main():
    registers = Registers(sys.argv[1])
    system = Baton(sys.argv[3]) if sys.argv[2] == "baton" else Peer(sys.argv[3:])
    threading.Thread(target=end_with_input, daemon=True).start()
    is_held = False
    while True:
        asked = time.monotonic_ns()
        claim = system.ask()
        told = time.monotonic_ns()
        token, left_ms = claim or (None, None)
        until = None if left_ms is None else asked + left_ms * 1_000_000
        if claim is None or (until is not None and told + STEP_MAX_S * 1e9 > until):
            if claim is None and is_held:
                say("lost", call=asked)
            is_held = is_held and claim is not None
            last_for(REST_S)
            continue
        is_held = True
        say("held", call=asked, back=told, until=until)
        registers.increment(token)


main()
