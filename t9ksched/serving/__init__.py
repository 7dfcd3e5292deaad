"""How the HTTP servers of t9ksched accept connections: the same limits for all, whatever library answers the requests.

REST (uvicorn), the dev cluster, `/internal/v1` and the probes (aiohttp) listen through an `Acceptor`. It limits
connections, ends those that send or read nothing, and stops accepting before the process runs out of file descriptors.
"""

from t9ksched.serving.acceptor import Acceptor as Acceptor
from t9ksched.serving.connection import answering as answering
from t9ksched.serving.limits import EXEMPT_PATHS as EXEMPT_PATHS
from t9ksched.serving.limits import ConnectionLimits as ConnectionLimits
from t9ksched.serving.listening import PortInUse as PortInUse
from t9ksched.serving.listening import listen as listen
