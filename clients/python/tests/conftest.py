"""A real `baton dev` of two replicas for each test that asks for it. BATON_BIN names the program."""

import asyncio
import json
import os
import socket
import subprocess
import time
import urllib.request

import pytest

PATIENCE_S = 30


def until(what, look):
    """What is found, looking again and again."""
    ends = time.monotonic() + PATIENCE_S
    while not (found := look()):
        assert time.monotonic() < ends, f"waited too long: {what}"
        time.sleep(0.01)
    return found


async def until_async(what, look):
    """The same, while the loop goes on."""
    ends = time.monotonic() + PATIENCE_S
    while not (found := look()):
        assert time.monotonic() < ends, f"waited too long: {what}"
        await asyncio.sleep(0.01)
    return found


async def work_until_cancelled():
    """What waits until its lead is over. A cancellation that does not come is a failure."""
    try:
        await asyncio.wait_for(asyncio.Event().wait(), PATIENCE_S)
    except TimeoutError:
        pytest.fail("waited too long: a cancellation")


class Dev:
    def __init__(self, port, *options):
        program = os.environ.get("BATON_BIN")
        assert program, "BATON_BIN names no program: the tests need a baton"
        self.urls = [f"http://127.0.0.1:{port + replica}" for replica in range(2)]
        command = [program, "dev", "--replicas", "2", "--port", str(port), "--lease", "2s", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)

    def call(self, replica, method, path, body=None):
        request = urllib.request.Request(self.urls[replica] + path, method=method)
        if body is not None:
            request.data, request.headers = json.dumps(body).encode(), {"Content-type": "application/json"}
        try:
            with urllib.request.urlopen(request, timeout=10) as response:
                return json.loads(response.read() or b"null")
        except OSError:
            return None

    def leader(self):
        """The number of the replica that leads, once there is one. It is promised nothing."""

        def look():
            states = [self.call(replica, "GET", "/status") for replica in range(2)]
            leads = [state is not None and state["roles"][0]["leads"] for state in states]
            return [leads.index(True)] if any(leads) else None

        return until("a leader", look)[0]

    def end(self):
        self.process.kill()
        self.process.wait()


def free_port():
    """The first of two that are free together with those of their telemetry."""
    while True:
        with socket.socket() as first:
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
        try:
            for other in (port, port + 1, port + 100, port + 101):
                with socket.socket() as sock:
                    sock.bind(("127.0.0.1", other))
            return port
        except (OSError, OverflowError):
            continue


@pytest.fixture
def dev():
    dev = Dev(free_port())
    dev.leader()
    yield dev
    dev.end()
