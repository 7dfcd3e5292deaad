"""What a scheduler is told when it is made; the policy that is in force may come from the cluster later."""

from datetime import timedelta
from pathlib import Path

import msgspec

from t9ksched.engine.policy import Policy
from t9ksched.notify.sending import Send, to_the_public
from t9ksched.scheduler.act.gang_timeouts import GANG_BIND_TIMEOUT_SECONDS
from t9ksched.scheduler.state.refill import GANG_RECOVERY_TIMEOUT_SECONDS
from t9ksched.scheduler.state.waitinglimits import NO_LIMITS, WaitingLimits


class SchedulerOptions(msgspec.Struct, frozen=True):
    """Settings of one scheduler.

    Attributes:
        listen: address and port of `/internal/v1`; port 0 takes a free one.
        public_address: base URL by which API replicas reach it; None for the address it listens on.
        policy: in force until a configuration says otherwise.
        scheduler_conf: the configuration's file; None to follow the ConfigMap.
        retention: how long history is kept.
        gang_bind_timeout: seconds that binding a gang may take before it is taken back.
        gang_recovery_timeout: seconds that the room of lost members is kept for their gang.
        observe: plan and explain, and write nothing to the cluster.
        waiting: limits of jobs that wait, by queue and by user.
        send: sends a notification.
    """

    listen: tuple[str, int] = ("127.0.0.1", 0)
    public_address: str | None = None
    policy: Policy = msgspec.field(default_factory=Policy)
    scheduler_conf: Path | None = None
    retention: timedelta = timedelta(days=90)
    gang_bind_timeout: int = GANG_BIND_TIMEOUT_SECONDS
    gang_recovery_timeout: int = GANG_RECOVERY_TIMEOUT_SECONDS
    observe: bool = False
    waiting: WaitingLimits = NO_LIMITS
    send: Send = msgspec.field(default_factory=to_the_public)
