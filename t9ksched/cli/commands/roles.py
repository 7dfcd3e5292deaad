"""`t9ksched scheduler`, `controller` and `api`: one role a process, as on a cluster."""


def scheduler() -> None:
    """Run the scheduler alone."""


def controller() -> None:
    """Run the job controllers alone."""


def api() -> None:
    """Run the REST service alone."""
