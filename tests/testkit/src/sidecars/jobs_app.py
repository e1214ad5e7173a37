"""A small app with one endpoint for jobs: it does a piece of work at each call, and writes down when and for whom.

Arguments: the file that it writes to, and a seed. It prints its port. Some pieces of work are slow, some fail; but what
comes to /job/NAME, as Dapr delivers jobs, is answered as its name says.
"""

import http.server
import json
import random
import sys
import threading
import time

journal = open(sys.argv[1], "a", encoding="utf-8")
dice = random.Random(int(sys.argv[2]))
lock = threading.Lock()


def write(event):
    with lock:
        journal.write(json.dumps(event) + "\n")
        journal.flush()


def work_for(seconds):
    time.sleep(seconds)


def named(path, attempt):
    if "unwanted" in path:
        return 404
    return 500 if "fails" in path or "third-time" in path and attempt < 3 else 200


class App(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        attempt = int(self.headers["Baton-Attempt"])
        with lock:
            pause, status = dice.choice([0, 0, 0.1, 0.8]), 500 if dice.random() < 0.1 else 200
        if self.path.startswith("/job/"):
            pause, status = 0, named(self.path, attempt)
        call = {
            "path": self.path,
            "type": self.headers["Content-Type"],
            "body": body.decode(),
            "run": self.headers["Baton-Run-Id"],
            "attempt": attempt,
            "token": int(self.headers["Baton-Fencing-Token"]),
            "key": self.headers["Idempotency-Key"],
            "at": time.time(),
        }
        write(call)
        work_for(pause)
        body = b"done" if status == 200 else b"no luck"
        try:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            # Whoever asked has let go of the request.
            pass

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), App)
print(server.server_address[1], flush=True)
server.serve_forever()
