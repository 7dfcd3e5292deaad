"""Parts that several commands start, put together from the settings."""

from datetime import timedelta
from typing import Literal

from t9ksched import version
from t9ksched.api.allowances import Limits
from t9ksched.api.leader import HttpLeader
from t9ksched.api.services import Services
from t9ksched.controller.activity import Asking
from t9ksched.controller.asking import HttpAsker
from t9ksched.controller.service import Controllers
from t9ksched.controller.sshkeys import SecretMaker
from t9ksched.kube.port import ClusterPort
from t9ksched.model.notification import Allowed
from t9ksched.notify.sending import sender
from t9ksched.notify.services import Services as Messaging
from t9ksched.notify.webhook import Webhooks
from t9ksched.scheduler.options import SchedulerOptions
from t9ksched.scheduler.report.traces import exported
from t9ksched.scheduler.service import SchedulerService
from t9ksched.scheduler.state.waitinglimits import WaitingLimits
from t9ksched.serving import ConnectionLimits
from t9ksched.settings import Settings
from t9ksched.store import Store


def scheduler_of(
    settings: Settings, client: ClusterPort, store: Store, secret: str, *, observe: bool = False
) -> SchedulerService:
    """A scheduler; with `observe` one that changes nothing on the cluster."""
    service = SchedulerService(
        client,
        store,
        internal_secret=secret,
        options=SchedulerOptions(
            listen=(settings.internal_host, settings.internal_port),
            public_address=settings.internal_address,
            retention=timedelta(days=settings.retention_days),
            scheduler_conf=settings.scheduler_conf,
            observe=observe,
            send=sender(
                Webhooks(settings.notify_networks), Messaging(settings.notify_services, _mail_server(settings))
            ),
            waiting=WaitingLimits(settings.max_waiting_jobs_per_user, settings.max_waiting_jobs_per_queue),
        ),
    )
    if settings.trace_endpoint:
        service.sql_writer.heard = exported(settings.trace_endpoint, version()).note
    return service


PodPlace = Literal["apart", "here", "none"]
"""Where pods are that are asked whether anybody uses them: elsewhere, processes of this machine, or nowhere, as on a
dev cluster, whose addresses must not be asked.
"""


def controllers_of(
    settings: Settings, client: ClusterPort, pods: PodPlace = "apart", rest: str | None = None
) -> Controllers:
    """The controllers; `rest` is the URL at which pods reach REST, if that is not what the settings say."""
    seconds = settings.idle_check_seconds
    ask = HttpAsker(local=pods == "here") if seconds and pods != "none" else None
    make = SecretMaker(rest=settings.rest_address or rest or "")
    asking = Asking(ask, seconds, timedelta(seconds=settings.idle_after_seconds))
    return Controllers(client, make=make, asking=asking)


def services_of(
    settings: Settings, store: Store, client: ClusterPort, leader: HttpLeader, controllers: Controllers | None = None
) -> Services:
    """What REST works with; `controllers` are those of the same process."""
    limits = Limits(
        settings.max_objects_per_request,
        settings.max_requests_per_minute,
        settings.max_waiting_jobs_per_user,
        settings.max_waiting_jobs_per_queue,
    )
    notify = Allowed(settings.notify_networks, settings.notify_services, settings.notify_mail is not None)
    return Services(
        store,
        client,
        leader,
        settings.max_body_bytes,
        limits,
        settings.max_requests_at_once,
        notify,
        settings.rest_exec,
        controllers.metrics if controllers is not None else None,
    )


def limits_of(settings: Settings) -> ConnectionLimits:
    """The limits of connections to each server of the process."""
    return ConnectionLimits(settings.max_connections, settings.max_connections_per_address)


def _mail_server(settings: Settings) -> str | None:
    return settings.notify_mail.get_secret_value() if settings.notify_mail is not None else None
