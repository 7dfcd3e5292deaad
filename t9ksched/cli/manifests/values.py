"""The values of the chart, with their defaults: the source of its `values.yaml` and `values.schema.json`.

A text under a field becomes the comment in the one and the description in the other.
"""

from typing import Annotated, Any, Final, Literal

import msgspec

Count = Annotated[int, msgspec.Meta(ge=0)]
Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]
_NAME = "[a-z0-9]([-a-z0-9.]*[a-z0-9])?"
FORMS: Final[dict[str, str]] = {}
"""What a text of a form is, by the pattern of the form."""


def _form(pattern: str, words: str) -> msgspec.Meta:
    FORMS[pattern] = words
    return msgspec.Meta(pattern=pattern)


_name = _form(f"^{_NAME}$", "a name of Kubernetes: lower-case letters, digits, '-' and '.'")
_may_name = _form(f"^({_NAME})?$", "a name of Kubernetes, or empty: lower-case letters, digits, '-' and '.'")
_host = _form(f"^((\\*\\.)?{_NAME})?$", "a host, or empty: lower-case letters, digits, '-' and '.'")
_key = _form("^[-._a-zA-Z0-9]+$", "a key of a Secret: letters, digits, '-', '_' and '.'")
_PART = "[a-zA-Z0-9][-._a-zA-Z0-9]*"
_repository = _form(
    f"^({_PART}(:[0-9]+)?/)?{_PART}(/{_PART})*$",
    "where an image is, without tag and digest, such as registry.example/t9ksched",
)
_tag = _form("^([_a-zA-Z0-9][-._a-zA-Z0-9]*)?$", "a tag of an image, or empty: letters, digits, '-', '_' and '.'")
_digest = _form("^(sha256:[0-9a-f]{64})?$", "the digest of an image, or empty: sha256: and 64 hexadecimal digits")
_amount = _form(r"^[0-9]+(\.[0-9]+)?(m|k|[KMGTPE]i?)?$", "an amount, such as 500m, 2 or 512Mi")
_variable = _form("^[_a-zA-Z][_a-zA-Z0-9]*$", "the name of an environment variable: letters, digits and '_'")
Name = Annotated[str, _name]
MayName = Annotated[str, _may_name]
Host = Annotated[str, _host]
Amounts = dict[str, Annotated[str, _amount]]
Project = Literal[
    "coscheduling",
    "jobset",
    "knative",
    "kubeflow-mpi",
    "kubeflow-trainer",
    "kubeflow-training",
    "kuberay",
    "kubernetes-groups",
    "kubevirt",
    "lws",
    "volcano",
]
"""A file of `deploy/foreign`."""


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A mapping of values; names that it does not have are refused."""


class Image(Section, frozen=True):
    """The one image of all roles."""

    repository: Annotated[str, _repository] = "t9ksched"
    """Where it is, such as `registry.example/t9ksched`."""
    tag: Annotated[str, _tag] = ""
    """By default the version of the chart."""
    digest: Annotated[str, _digest] = ""
    """`sha256:…`: exactly this image, whatever its tag says."""
    pull_policy: Literal["IfNotPresent", "Always", "Never"] = "IfNotPresent"
    pull_secrets: list[Name] = []
    """Names of Secrets in `t9k-system` that let nodes pull it."""


class Namespace(Section, frozen=True):
    """The namespace `t9k-system`. Helm makes it itself (`--create-namespace`)."""

    create: bool = False
    pod_security: Literal["restricted", "baseline", "privileged"] = "restricted"
    """The Pod Security Standard that the namespace enforces, where it is made here."""


class Database(Section, frozen=True):
    """Where the address of PostgreSQL is: by default in the Secret of all settings."""

    secret_name: MayName = ""
    """A Secret of its own, such as the one that an operator of PostgreSQL makes."""
    secret_key: Annotated[str, _key] = "uri"
    """The key of the address in it."""


class Resources(Section, frozen=True):
    """What a container asks for, and may use."""

    requests: Amounts = {}
    limits: Amounts = {}


class Deployed(Section, frozen=True):
    """A Deployment."""

    resources: Resources
    replicas: Count = 2
    priority_class_name: MayName = "system-cluster-critical"
    """Whoever is pressed for room must not evict what gives out room."""
    env: dict[Annotated[str, _variable], str] = {}
    """Further settings, such as `T9KSCHED_LOG_LEVEL`."""
    pod_annotations: dict[str, str] = {}
    node_selector: dict[str, str] = {}
    tolerations: list[dict[str, Any]] = []
    affinity: dict[str, Any] = {}


class Service(Section, frozen=True):
    """How REST is reached in the cluster."""

    type: Literal["ClusterIP", "NodePort", "LoadBalancer"] = "ClusterIP"
    port: Port = 80
    annotations: dict[str, str] = {}


class Api(Deployed, frozen=True):
    """REST: any number of replicas."""

    exec: bool = False
    """Whether it runs commands in pods, for users whom the cluster lets do it. Its account then may, too."""
    leave_seconds: Annotated[int, msgspec.Meta(ge=0, le=15)] = 5
    """How long a replica that is told to stop goes on serving, until all who divide requests know that it stops."""
    service: Service = Service()


class Ingress(Section, frozen=True):
    """An Ingress before REST, which ends TLS."""

    enabled: bool = False
    class_name: MayName = ""
    host: Host = ""
    tls_secret_name: MayName = ""
    """The Secret with the certificate of the host; empty: no TLS."""
    annotations: dict[str, str] = {}
    """Such as `cert-manager.io/cluster-issuer`. Streams of events need a proxy that does not buffer."""


class Gateway(Section, frozen=True):
    """An HTTPRoute of a Gateway, in place of an Ingress; the Gateway ends TLS."""

    enabled: bool = False
    name: MayName = ""
    """The Gateway."""
    namespace: MayName = ""
    """Its namespace, where that is another."""
    section_name: MayName = ""
    """One listener of it."""
    host: Host = ""


class PodDisruptionBudget(Section, frozen=True):
    """How many replicas of each role may be away while nodes are drained."""

    enabled: bool = True
    max_unavailable: Count = 1


class PriorityClass(Section, frozen=True):
    """A PriorityClass for all roles, in place of `priorityClassName`, where a quota forbids those of the system."""

    create: bool = False
    name: Name = "t9ksched"
    value: Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)] = 1_000_000_000


class Egress(Section, frozen=True):
    """What the pods may connect to: each other, DNS, and what is named here."""

    enabled: bool = False
    api_server_ports: tuple[Port, ...] = (443, 6443)
    database_ports: tuple[Port, ...] = (5432,)
    rules: list[dict[str, Any]] = []
    """Further rules as a NetworkPolicy has them, such as for webhooks and mail."""


class NetworkPolicy(Section, frozen=True):
    """Who may connect to the pods."""

    enabled: bool = True
    egress: Egress = Egress()


class Rights(Section, frozen=True):
    """What the service accounts may do. Every rule stands in `deploy/rbac.yaml`."""

    create: bool = True
    admission_policies: bool = True
    """Policies that hold the accounts to fields and namespaces; they need Kubernetes 1.30."""
    foreign: list[Project] = []
    """Projects whose jobs are scheduled too: their rights."""


class Monitoring(Section, frozen=True):
    """Objects for the Prometheus operator and Grafana."""

    enabled: bool = False
    """ServiceMonitor, PodMonitor, recording rules and alerts."""
    dashboards: list[Literal["operator", "team", "capacity"]] = []
    """Dashboards for Grafana, as ConfigMaps that its sidecar finds."""


class Values(Section, frozen=True):
    """All values."""

    image: Image = Image()
    run_as_user: Count = 65532
    """As whom all pods run; 0 where the cluster chooses, as OpenShift does. Never as root."""
    namespace: Namespace = Namespace()
    secret_name: Name = "t9ksched"
    """The Secret with `T9KSCHED_DB`, `T9KSCHED_INTERNAL_SECRET` and `T9KSCHED_ADMIN_TOKEN`."""
    database: Database = Database()
    scheduler: Deployed = Deployed(
        resources=Resources(requests={"cpu": "500m", "memory": "512Mi"}, limits={"memory": "1Gi"}),
    )
    """One schedules, by its lease; the others take over within seconds."""
    controller: Deployed = Deployed(
        resources=Resources(requests={"cpu": "100m", "memory": "128Mi"}, limits={"memory": "512Mi"}),
    )
    """Turns jobs into pods, by its lease. 0 replicas where controllers of the platform do it."""
    api: Api = Api(
        resources=Resources(requests={"cpu": "100m", "memory": "256Mi"}, limits={"memory": "512Mi"}),
    )
    ingress: Ingress = Ingress()
    gateway: Gateway = Gateway()
    pod_disruption_budget: PodDisruptionBudget = PodDisruptionBudget()
    priority_class: PriorityClass = PriorityClass()
    network_policy: NetworkPolicy = NetworkPolicy()
    rights: Rights = Rights()
    monitoring: Monitoring = Monitoring()
