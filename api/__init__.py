"""The REST service: queues, workloads, nodes and tokens over HTTP.

`create_app(services)` builds it; one router a resource. It holds no state of its own: SQL remembers, Kubernetes runs,
and what only the leading scheduler knows is asked of it.
"""

from api.app import create_app
from api.services import Services

__all__ = ["Services", "create_app"]
