"""t9ksched: a queue-based batch scheduler for AI workloads on Kubernetes."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("t9ksched")
except PackageNotFoundError:  # running from a bare checkout
    __version__ = "0.0.0"
