"""Plays the Jupyter of a Notebook: `python jupyter.py PORT MOOD`, where the file MOOD says how it behaves now.

`used`: it was used just now; `quiet`: not since it began; `busy`: a kernel works; `slow`: it never answers; `rubbish`,
`login`, `huge`: it answers so; `away`: it hangs up.
"""

import json
import os
import sys
import time
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

BEGAN = datetime.now(UTC)


class Jupyter(BaseHTTPRequestHandler):
    """Answers as the file says."""

    def do_GET(self) -> None:
        mood = Path(sys.argv[2]).read_text()
        path = self.path.partition("?")[0].removeprefix(os.environ["NB_PREFIX"])
        if mood == "slow":
            time.sleep(3600)
        elif mood == "away":
            self.connection.close()
        elif mood == "login":
            self.answer(302, b"", Location="/hub/login")
        elif mood == "rubbish":
            self.answer(200, b"\xff{" * 100)
        elif mood == "huge":
            self.answer(200, b"[" + b"1," * 5_000_000)
        else:
            last = (datetime.now(UTC) if mood == "used" else BEGAN).isoformat()
            kernel = {"last_activity": BEGAN.isoformat(), "execution_state": "busy" if mood == "busy" else "idle"}
            pages = {"api/status": {"last_activity": last}, "api/kernels": [kernel], "api/terminals": []}
            self.answer(200 if path in pages else 404, json.dumps(pages.get(path)).encode())

    def answer(self, code: int, body: bytes, **headers: str) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    ThreadingHTTPServer(("", int(sys.argv[1])), Jupyter).serve_forever()
