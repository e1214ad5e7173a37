#!/usr/bin/env python3
"""What the workers write to. It takes entries from the leader, and refuses a former one by its smaller token.

This one keeps everything in memory, to be short. A real resource keeps the greatest token where it keeps its data, and
compares and writes in one step.
"""
import http.server, json, os, signal, sys

entries = []
greatest = 0


class Ledger(http.server.BaseHTTPRequestHandler):
    timeout = 5  # seconds for which a client may be silent: requests are taken one at a time

    def do_GET(self):
        self.answer(200, entries[-100:])

    def do_POST(self):
        global greatest
        try:
            entry = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            token, text = int(entry["token"]), str(entry["text"])
        except (ValueError, KeyError, TypeError):
            return self.answer(400, {"error": "expected {token, text}"})
        if token < greatest:
            return self.answer(409, {"error": f"token {token} is of a former leader; {greatest} has written"})
        greatest = token
        entries.append({"number": len(entries) + 1, "token": token, "text": text})
        self.answer(201, entries[-1])

    def answer(self, code, body):
        content = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
port = int(os.environ.get("PORT", "8080"))
http.server.HTTPServer(("", port), Ledger).serve_forever()
