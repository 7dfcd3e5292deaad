"""`t9ksched snapshot`: the live cluster at this moment, for `simulate replay` elsewhere."""

import sys

from t9ksched.cli.failure import BAD_USAGE, Failure
from t9ksched.cli.options import Service, with_service


@with_service
def snapshot(service: Service) -> None:
    """Write the live cluster at this moment (nodes, queues, jobs, policy) to stdout, for `simulate replay`."""
    if sys.stdout.isatty():
        raise Failure(
            "A snapshot is no text to look at.", remedy="Write it to a file: t9ksched snapshot > FILE", code=BAD_USAGE
        )
    content = service().read("/apis/v1/admin/snapshot")
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()
