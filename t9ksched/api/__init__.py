"""The REST service: queues, workloads, nodes and tokens over HTTP.

`create_app(services)` builds it; one router a resource. It holds no state of its own: the database keeps records,
Kubernetes runs the jobs, and the service asks the leading scheduler for what only that knows.
"""

from t9ksched.api.app import create_app
from t9ksched.api.services import Services

__all__ = ["Services", "create_app"]
