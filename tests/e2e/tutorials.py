#!/usr/bin/env python3
"""Does what the pages of docs/tutorials say, each in an empty folder, as a new user would. Arguments: names of pages.

Of a page's fenced blocks these are done, in their order:

    ```python app.py        a file is written
    ```sh                   a command is run to its end
    ```sh background        one is started, and goes on
    ```sh terminal          so is an app, of which there are two

Then one of the two acts, and says with which token. It is killed, and the other must act with a greater one.
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs/tutorials"
# Dependencies come from the other end of the world.
INSTALL_S = 540
LEAD_S = 120
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.M | re.S)
ACTS = re.compile(r"acting with token (\d+)")
# What a page needs besides Python, by the word that its commands begin with.
NEEDS = {"go", "mvn", "npm", "cargo", "redis-server"}


class Terminal:
    """A command that goes on, and what it has printed."""

    def __init__(self, command, folder, environment):
        self.lines = []
        self.process = subprocess.Popen(
            ["bash", "-euc", command], cwd=folder, env=environment, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        )
        self.reader = threading.Thread(target=lambda: self.lines.extend(self.process.stdout), daemon=True)
        self.reader.start()

    def token(self):
        """The last that it says to have acted with."""
        found = [match[1] for line in list(self.lines) if (match := ACTS.search(line))]
        return int(found[-1]) if found else None

    def kill(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


class Failed(Exception):
    pass


def until(what, look, terminals):
    ends = time.monotonic() + LEAD_S
    while (found := look()) is None:
        if time.monotonic() > ends:
            said = "".join(f"  {number}: {line}" for number, one in enumerate(terminals) for line in one.lines[-20:])
            raise Failed(f"waited too long: {what}\n{said}")
        time.sleep(0.05)
    return found


def missing(text):
    lines = [line for kind, _, block in BLOCK.findall(text) if kind == "sh" for line in block.splitlines()]
    words = {line.split()[0] for line in lines if line}
    return sorted(word for word in words & NEEDS if shutil.which(word) is None)


def follow(page):
    text = page.read_text(encoding="utf-8")
    background, terminals = [], []
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "BATON": str(ROOT), "PATH": f"{ROOT}/target/debug:{os.environ['PATH']}"}
        try:
            for kind, name, block in BLOCK.findall(text):
                if kind != "sh" and name:
                    path = pathlib.Path(folder, name)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(block, encoding="utf-8")
                elif kind == "sh" and name == "background":
                    background.append(Terminal(block, folder, environment))
                elif kind == "sh" and name == "terminal":
                    terminals.append(Terminal(block, folder, environment))
                elif kind == "sh":
                    done = subprocess.run(
                        ["bash", "-euo", "pipefail", "-c", block], cwd=folder, env=environment, timeout=INSTALL_S,
                        stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                    )
                    if done.returncode != 0:
                        said = done.stdout[-2000:] + done.stderr[-2000:]
                        raise Failed(f"{block}ended with {done.returncode}:\n{said}")
            if len(terminals) != 2:
                raise Failed("a tutorial has two terminals")
            everything = background + terminals
            leader = until("one acts", lambda: next((one for one in terminals if one.token()), None), everything)
            other = terminals[1 - terminals.index(leader)]
            if other.token():
                raise Failed("both act")
            token = leader.token()
            leader.kill()
            after = until("the other acts", other.token, everything)
            if after <= token:
                raise Failed(f"its token {after} is not greater than {token}")
            print(f"tutorial {page.stem}: token {token}, killed, token {after}", flush=True)
        finally:
            for one in terminals + background:
                one.kill()


def main():
    pages = [PAGES / f"{name}.md" for name in sys.argv[1:]] or sorted(PAGES.glob("*.md"))
    failed = 0
    for page in pages:
        if lacks := missing(page.read_text(encoding="utf-8")):
            print(f"notice: tutorial {page.stem} is left out: there is no {', '.join(lacks)}")
            continue
        try:
            follow(page)
        except (Failed, OSError, subprocess.TimeoutExpired) as why:
            print(f"tutorial {page.stem}: {why}", file=sys.stderr)
            failed += 1
    print(f"test result: {'FAILED' if failed else 'ok'}. {len(pages) - failed} passed; {failed} failed;")
    sys.exit(failed > 0)


main()
