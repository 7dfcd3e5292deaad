"""Settings of the services, from `T9KSCHED_…` variables: the one place that reads the environment.

Command-line options win over variables, variables over the defaults here. Secrets never show in a representation.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

PREFIX = "T9KSCHED_"


class SettingsError(ValueError):
    """A variable has a value that cannot be used; the message names it and says what would do."""


class Settings(BaseSettings):
    """Everything that can be configured without a command-line option.

    Attributes:
        db: database address, `sqlite:///path` or `postgresql://…`; None means SQLite in the data directory.
        host, port: where REST listens.
        internal_host, internal_port: where the leader serves `/internal/v1`; port 0 takes a free one.
        internal_address: the URL by which API replicas reach this leader, if it differs from host and port.
        health_host, health_port: where scheduler and controllers answer a kubelet's probes; None is nowhere.
        internal_secret: shared by scheduler and API; None lets a single process make its own.
        admin_token: the administrator's token of the first start; None makes a random one.
        retention_days: how long history and deleted jobs are kept.
        max_body_bytes: the largest request body that REST reads.
        card_resources: further resource names whose units are whole cards.
        scheduler_conf: a file with the `scheduler.conf`, followed while the scheduler runs; without it the ConfigMap
            `scheduler-config` is followed.
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore", hide_input_in_errors=True)

    data_dir: Path | None = None
    db: str | None = None
    kubeconfig: Path | None = None
    host: str = "127.0.0.1"
    port: int = Field(default=8080, ge=0, le=65535)
    internal_host: str = "127.0.0.1"
    internal_port: int = Field(default=0, ge=0, le=65535)
    internal_address: str | None = None
    health_host: str = "127.0.0.1"
    health_port: int | None = Field(default=None, ge=0, le=65535)
    internal_secret: SecretStr | None = None
    admin_token: SecretStr | None = None
    retention_days: int = Field(default=90, ge=1)
    max_body_bytes: int = Field(default=4 * 1024 * 1024, ge=1024)
    card_resources: Annotated[tuple[str, ...], NoDecode] = ()
    scheduler_conf: Path | None = None
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["console", "json"] = "console"

    @field_validator("card_resources", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        """A comma-separated text, as variables have it."""
        return tuple(name.strip() for name in value.split(",") if name.strip()) if isinstance(value, str) else value

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
