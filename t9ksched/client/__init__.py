"""The Python SDK: `Client`, and `AsyncClient` for asyncio.

    from t9ksched.client import Client

    client = Client()
    job = client.run("python train.py", image="pytorch/pytorch", gpus=4, queue="a100")
    client.wait(job)

Nothing of the service is imported here: the base package has all that it needs. Begin with `client.py`; what each
method does is in `operations.py`, `waiting.py`, `following.py` and `logs.py`, which do no input or output.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from t9ksched.client.async_client import AsyncClient as AsyncClient
    from t9ksched.client.client import Client as Client
    from t9ksched.client.errors import ClientError as ClientError
    from t9ksched.client.errors import Fault as Fault
    from t9ksched.client.errors import Misunderstood as Misunderstood
    from t9ksched.client.errors import NotFound as NotFound
    from t9ksched.client.errors import NotReached as NotReached
    from t9ksched.client.errors import Refused as Refused
    from t9ksched.client.errors import Unreachable as Unreachable
    from t9ksched.client.errors import WaitTimeout as WaitTimeout
    from t9ksched.client.known import NoService as NoService
    from t9ksched.client.models import Event as Event
    from t9ksched.client.models import Explanation as Explanation
    from t9ksched.client.models import Job as Job
    from t9ksched.client.models import Listed as Listed
    from t9ksched.client.models import LogLine as LogLine
    from t9ksched.client.models import NewNotification as NewNotification
    from t9ksched.client.models import Node as Node
    from t9ksched.client.models import Notification as Notification
    from t9ksched.client.models import Pod as Pod
    from t9ksched.client.models import Queue as Queue
    from t9ksched.client.models import Simulation as Simulation
    from t9ksched.client.models import Submitted as Submitted
    from t9ksched.client.models import WhoAmI as WhoAmI
    from t9ksched.client.operations import Retries as Retries

_PLACES: Final = {
    "async_client": ("AsyncClient",),
    "client": ("Client",),
    "errors": (
        "ClientError",
        "Fault",
        "Misunderstood",
        "NotFound",
        "NotReached",
        "Refused",
        "Unreachable",
        "WaitTimeout",
    ),
    "known": ("NoService",),
    "models": (
        "Event",
        "Explanation",
        "Job",
        "Listed",
        "LogLine",
        "NewNotification",
        "Node",
        "Notification",
        "Pod",
        "Queue",
        "Simulation",
        "Submitted",
        "WhoAmI",
    ),
    "operations": ("Retries",),
}
_MODULES: Final = {name: module for module, names in _PLACES.items() for name in names}
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    """What is public, imported when it is asked for: commands need a small part, and start fast."""
    if name in _MODULES:
        return getattr(import_module(f"t9ksched.client.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
