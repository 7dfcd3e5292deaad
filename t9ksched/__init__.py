"""t9ksched: a queue-based batch scheduler for AI workloads on Kubernetes."""

from functools import cache


@cache
def version() -> str:
    """The version that is installed, such as `0.1.0`; `0.0.0` of a bare checkout. It is looked up when it is asked for:
    that reads the metadata of installed packages, and takes longer than a short command.
    """
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed("t9ksched")
    except PackageNotFoundError:
        return "0.0.0"
