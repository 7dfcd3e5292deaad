"""What lasts is told on a terminal, and nowhere else: a slow service from outside."""

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.acceptance.conftest import Up, run
from tests.acceptance.terminal import Terminal

ANSWER = b'{"items": [], "stopped": [], "continue": null}'


@pytest.fixture
def slow() -> Iterator[str]:
    """A service that takes its time."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            time.sleep(2.5)
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(ANSWER)))
            self.end_headers()
            self.wfile.write(ANSWER)

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_answer_that_lasts_is_told_on_a_terminal_and_wiped_out(up: Up, slow: str) -> None:
    one = Terminal(up, "queues", "list", "--server", slow, "--token", "t")
    try:
        code = one.end()
    finally:
        one.close()
    told = one.shown.decode()
    assert code == 0, told
    assert f"waiting for {slow}, 1 s" in told or f"waiting for {slow}, 2 s" in told, told
    line = told.rindex("waiting for")
    assert "\r\x1b[K" in told[line:], "it is wiped out"


def test_without_a_terminal_nothing_is_told(slow: str) -> None:
    done = run("queues", "list", "--server", slow, "--token", "t")
    assert (done.code, done.err) == (0, ""), done.err
