"""Settings of the services, from `T9KSCHED_…` variables: the one place that reads the environment, but for
`T9KSCHED_NATIVE` (`engine/kernel/native.py`).

Command-line options win over variables, variables over the defaults here. Secrets never show in a representation.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from t9ksched.model.leadership import DURATION, LEAST, Timing
from t9ksched.model.outbound import Network, parse_network

PREFIX = "T9KSCHED_"


class SettingsError(ValueError):
    """A variable has a value that cannot be used; the message names it and says what would do."""


class Settings(BaseSettings):
    """Everything that can be configured without a command-line option.

    The texts under the fields make `docs/reference/settings.md`. They are read there alone: to read the source takes
    longer than to import all of pydantic.
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore", hide_input_in_errors=True)

    data_dir: Path | None = None
    """Where a process keeps what it must remember; by default the user's data directory for `t9ksched`."""
    db: str | None = None
    """Address of the database, `sqlite:///PATH` or `postgresql://…`; by default SQLite in the data directory."""
    kubeconfig: Path | None = None
    """The kubeconfig of the cluster; without it the service account of the pod, or the dev cluster of `up`."""
    host: str = "127.0.0.1"
    """Where REST listens."""
    port: int = Field(default=8080, ge=0, le=65535)
    """Where REST listens; 0 takes a free port."""
    internal_host: str = "127.0.0.1"
    """Where the leading scheduler answers REST replicas (`/internal/v1`)."""
    internal_port: int = Field(default=0, ge=0, le=65535)
    """Where the leading scheduler answers REST replicas; 0 takes a free port."""
    internal_address: str | None = None
    """The URL by which REST replicas reach this scheduler, where it differs from host and port above."""
    rest_address: str | None = None
    """The URL at which pods reach REST, told to trials of AutoTuneExperiments; `up` with its own cluster knows it."""
    health_host: str = "127.0.0.1"
    """Where scheduler, controllers and REST in processes of their own answer a kubelet's probes."""
    health_port: int | None = Field(default=None, ge=0, le=65535)
    """Where they answer probes, and scheduler and REST `/metrics` without a token; by default nowhere, 0: any port."""
    leave_seconds: int = Field(default=0, ge=0, le=300)
    """How long a REST replica that is told to stop goes on serving while it says that it is not ready, in seconds."""
    lease_seconds: int = Field(default=DURATION, ge=LEAST, le=120)
    """How long a leader's lease lasts without renewal, in seconds; limits of sessions on PostgreSQL follow from it."""
    leader_elect: bool = True
    """Whether a scheduler waits for the lease; without it, it works at once and must be the only one."""
    internal_secret: SecretStr | None = None
    """The secret that scheduler and REST share, at least 16 characters; a single process makes its own."""
    admin_token: SecretStr | None = None
    """The administrator's token at the first start, at least 16 characters; by default a random one is made."""
    rest_exec: bool = False
    """Whether REST runs commands in pods of jobs, for users whom the cluster lets do it (`deploy/overlays/exec`)."""
    retention_days: int = Field(default=90, ge=1)
    """How many days the history of jobs, and jobs that are gone, are kept."""
    max_body_bytes: int = Field(default=4 * 1024 * 1024, ge=1024)
    """The largest body of a request that REST reads, in bytes."""
    max_objects_per_request: int = Field(default=1000, ge=1)
    """Objects that one submission may create."""
    max_requests_per_minute: int = Field(default=12_000, ge=1)
    """Requests that one user may make in a minute to each REST replica; beyond, 429 says when to ask again."""
    max_waiting_jobs_per_user: int = Field(default=10_000, ge=1)
    """Jobs of one user (by `kubectl`: of a namespace) that may wait at the same time; beyond, none is taken."""
    max_waiting_jobs_per_queue: int = Field(default=50_000, ge=1)
    """Jobs that may wait in one queue at the same time; none is taken beyond, by REST or `kubectl`."""
    max_connections: int = Field(default=2000, ge=16)
    """Connections to one server of the process at the same time; beyond, only questions after health are answered."""
    max_connections_per_address: int = Field(default=1000, ge=4)
    """Connections of one address to one server at the same time; behind a proxy that is the proxy's address."""
    max_requests_at_once: int = Field(default=64, ge=4)
    """Requests that REST works on at the same time; as many may wait for a moment. While it is slow they are fewer."""
    idle_check_seconds: int = Field(default=300, ge=0, le=86_400)
    """How often the controllers ask Jupyter of each Notebook whether it is used, in seconds; 0: never."""
    idle_after_seconds: int = Field(default=3600, ge=60, le=86_400)
    """After how long without use a Notebook, TensorBoard or Explorer is idle, in seconds."""
    card_resources: Annotated[tuple[str, ...], NoDecode] = ()
    """Names of further resources whose units are whole cards, separated by commas."""
    scheduler_conf: Path | None = None
    """A file with the `scheduler.conf`, followed while the scheduler runs, in place of the ConfigMap."""
    notify_networks: Annotated[tuple[Network, ...], NoDecode] = ()
    """Networks beyond the public ones to which notifications may go, such as `10.1.0.0/16`, separated by commas."""
    notify_services: Annotated[tuple[str, ...], NoDecode] = ("slack", "dingtalk", "wecombot", "feishu", "lark")
    """Services that users may name for notifications, as Apprise calls them; of most others users choose the host."""
    notify_mail: SecretStr | None = None
    """The mail server for notifications, such as `mailtos://USER:PASSWORD@HOST?from=ADDRESS`; by default none."""
    trace_endpoint: str | None = None
    """Where a scheduler sends a trace of each gang that starts, by OTLP over HTTP, such as
    `http://collector:4318/v1/traces`; by default nowhere. It needs the extra `otel`."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Which messages are logged: these and worse ones."""
    log_format: Literal["console", "json"] = "console"
    """How messages are logged: lines for people, or one JSON object a line."""

    @property
    def timing(self) -> Timing:
        """The times of a leadership."""
        return Timing.of(self.lease_seconds)

    @field_validator("notify_networks", mode="before")
    @classmethod
    def _networks(cls, value: Any) -> Any:
        try:
            return tuple(map(parse_network, _split(value))) if isinstance(value, str) else value
        except ValueError:
            raise ValueError("must be networks such as 10.1.0.0/16, separated by commas") from None

    @field_validator("card_resources", "notify_services", mode="before")
    @classmethod
    def _names(cls, value: Any) -> Any:
        """A comma-separated text, as variables have it."""
        return _split(value) if isinstance(value, str) else value

    @field_validator("internal_secret", "admin_token")
    @classmethod
    def _long_enough(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and len(value.get_secret_value()) < 16:
            raise ValueError("a secret needs at least 16 characters")
        return value

    @classmethod
    def load(cls, **given: Any) -> "Settings":
        """Settings of the environment; `given` wins.

        Raises:
            SettingsError: naming every variable that cannot be used.
        """
        try:
            return cls(**given)
        except ValidationError as error:
            faults = [
                f"{PREFIX}{'_'.join(str(part) for part in fault['loc']).upper()}: {fault['msg']}"
                for fault in error.errors(include_input=False, include_url=False)
            ]
            raise SettingsError("; ".join(faults)) from None


def _split(value: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in value.split(",") if name.strip())
