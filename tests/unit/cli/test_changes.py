"""Events wake a command up; where there are none it looks again by itself."""

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from t9ksched.cli.changes import Changes
from tests.unit.cli.conftest import Service

EVENT = b'id: 7\ndata: {"id":7,"type":"started","about":"job","at":"2030-01-01T00:00:00Z"}\n\n'


class Stream:
    """A server whose stream says what a test tells it to."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.asked: list[str] = []
        self.more = threading.Event()
        stream = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                stream.asked.append(self.path)
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"event: ready\nid: 6\ndata: {}\n\n")
                stream.more.wait()
                stream.more.clear()
                self.wfile.write(b"".join(stream.parts))

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def stream() -> Iterator[Stream]:
    made = Stream()
    yield made
    made.more.set()
    made.server.shutdown()
    made.server.server_close()


def test_an_event_wakes_up_and_a_broken_stream_is_gone_on_from(stream: Stream) -> None:
    changes = Changes(stream.url, "", {"name": "fit", "about": "job"})
    assert stream.asked == ["/apis/v1/events?name=fit&about=job"]
    stream.parts = [EVENT]
    changes._pause = 600.0
    stream.more.set()
    changes.wait()  # comes back long before it is time to look again
    end = time.monotonic() + 60
    while len(stream.asked) < 2 and time.monotonic() < end:
        time.sleep(0.01)
    assert stream.asked[1] == "/apis/v1/events?name=fit&about=job&after=7"


def test_without_a_stream_it_looks_again_by_itself(service: Service) -> None:
    changes = Changes(service.url, "", {})
    changes.wait()
    pause = changes._pause
    changes.wait(0)
    assert changes._pause > pause
