"""A Prometheus server and promtool of this machine (Debian: package `prometheus`), for tests that ask what they say."""

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import yaml

ROOT: Final = Path(__file__).parents[1]
GROUPS: Final = yaml.safe_load((ROOT / "deploy/monitoring/rules.yaml").read_text())["spec"]["groups"]
"""Our recording rules and alerts."""
DASHBOARDS: Final = ROOT / "deploy/monitoring/dashboards"
_READY_SECONDS: Final = 60.0
Series = tuple[dict[str, str], list[tuple[float, float]]]
"""Labels, and moments with values."""


def program(name: str) -> str | None:
    """The path of `prometheus` or `promtool`; None where it is not installed."""
    return shutil.which(name)


def queries() -> Iterator[tuple[str, str]]:
    """Title and expression of every query of every panel, for all queues."""
    for path in sorted(DASHBOARDS.glob("*.json")):
        board = json.loads(path.read_text())
        for panel in board["panels"]:
            for target in panel.get("targets", ()):
                yield f"{path.stem}: {panel['title']}", target["expr"].replace("$queue", ".*")


class Prometheus:
    """A server that runs; `url` is its own."""

    def __init__(self, url: str) -> None:
        self.url = url

    def get(self, path: str, **asked: str) -> Any:
        """The data of an answer of its API."""
        with urlopen(f"{self.url}/api/v1/{path}?{urlencode(asked)}", timeout=60) as answer:
            return json.load(answer)["data"]

    def now(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """The vector that the expression is now."""
        found = self.get("query", query=expression)["result"]
        return [(one["metric"], float(one["value"][1])) for one in found]

    def over(self, expression: str, start: float, end: float, step: int = 15) -> list[Series]:
        """The series that the expression is between two moments; what is no number is left out."""
        asked = {"query": expression, "start": str(start), "end": str(end), "step": str(step)}
        series = ((one["metric"], one["values"]) for one in self.get("query_range", **asked)["result"])
        return [
            (labels, kept) for labels, values in series if (kept := [(at, float(v)) for at, v in values if v != "NaN"])
        ]


@contextmanager
def serving(folder: Path, scrapes: Sequence[Mapping[str, Any]], seconds: int = 15) -> Iterator[Prometheus]:
    """A server with our rules that scrapes these targets, as `scrape_configs` has them, every so many seconds."""
    found = program("prometheus")
    assert found is not None, "prometheus is not installed"
    (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": GROUPS}))
    config = {
        "global": {"scrape_interval": f"{seconds}s", "evaluation_interval": f"{seconds}s"},
        "rule_files": ["rules.yaml"],
        "scrape_configs": [dict(one) for one in scrapes],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with (folder / "prometheus.log").open("w") as log:
        process = subprocess.Popen(
            [
                found,
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'samples'}",
                f"--web.listen-address={address}",
            ],
            stdout=log,
            stderr=log,
        )
    try:
        _wait(process, f"http://{address}/-/ready", folder / "prometheus.log")
        yield Prometheus(f"http://{address}")
    finally:
        process.terminate()
        process.wait(60)


def _wait(process: "subprocess.Popen[bytes]", url: str, log: Path) -> None:
    end = time.monotonic() + _READY_SECONDS
    while time.monotonic() < end and process.poll() is None:
        try:
            with urlopen(url, timeout=5):
                return
        except (HTTPError, URLError, OSError):
            time.sleep(0.1)
    raise AssertionError(log.read_text())
