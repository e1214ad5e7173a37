import time


def now() -> float:
    """Seconds of a clock that nobody sets, and that goes on while the machine sleeps (on Linux)."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
