"""Annotations of the dev cluster: what its simulated kubelets and device plugins read and write, and nothing else does.

A real cluster knows none of them, so no other package may read or trust one.
"""

from typing import Final

DOMAIN: Final = "devcluster.tensorstack.dev"

CARDS_GIVEN_PREFIX: Final = f"{DOMAIN}/cards-container-"
"""Annotation of a running pod, one a container: the indices that its node chose where this scheduler named none."""
RUN_SECONDS_ANNOTATION: Final = f"{DOMAIN}/run-seconds"
"""How many seconds a pod's containers run; without it they run until the pod is deleted."""
EXIT_CODE_ANNOTATION: Final = f"{DOMAIN}/exit-code"
MESSAGE_ANNOTATION: Final = f"{DOMAIN}/termination-message"
"""What each container has written as its last words when it ends by itself."""
STOP_SECONDS_ANNOTATION: Final = f"{DOMAIN}/stop-seconds"
"""How long a deleted pod takes to stop; never longer than its grace period."""
LOG_LINES_ANNOTATION: Final = f"{DOMAIN}/log-lines"
"""What each container writes at its start: the lines of this text, or so many lines as it says if it is a number."""

ANNOTATIONS: Final = (
    RUN_SECONDS_ANNOTATION,
    EXIT_CODE_ANNOTATION,
    MESSAGE_ANNOTATION,
    STOP_SECONDS_ANNOTATION,
    LOG_LINES_ANNOTATION,
    CARDS_GIVEN_PREFIX,
)
