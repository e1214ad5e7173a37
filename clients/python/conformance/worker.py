"""What both programs of the conformance suite share: how they speak, and a clock that can sleep (clients/README.md)."""

import json
import threading
import time
from collections.abc import Callable

from baton_sidecar import _clock

# The work needs so long to stop, whoever ends it.
STOPPING_S = 0.03

_slept = 0.0
_lock = threading.Lock()


def say(what: str, **fields: int) -> None:
    with _lock:
        print(json.dumps({"is": what, **fields}), flush=True)


def at() -> int:
    return time.monotonic_ns()


def now() -> float:
    return _clock.now() + _slept


def listen(end: Callable[[], object]) -> None:
    """Does what is told on the standard input."""

    def listen() -> None:
        global _slept
        try:
            while (words := input().split()) and words[0] != "end":
                _slept += int(words[1]) / 1000
                say("slept", at=at())
        except EOFError:
            pass
        end()

    threading.Thread(target=listen, daemon=True).start()
