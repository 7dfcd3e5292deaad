"""What `t9ksched doctor` looks at beyond rights and nodes: clocks, certificates, versions, and who leads.

The judgements are pure functions; `examine` reads what they need. An object that is not there, such as a Deployment of
an installation that is none, is not judged.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from t9ksched.kube.errors import ApiError, NotFound
from t9ksched.kube.port import Object
from t9ksched.kube.resources import ADMISSIONPOLICIES, DEPLOYMENTS, LEASES
from t9ksched.kube.setup.findings import Finding, Level
from t9ksched.kube.setup.rbac import LEADING, ROLES
from t9ksched.kube.transport.client import Client
from t9ksched.model.names import SYSTEM_NAMESPACE

NODE_LEASES: Final = "kube-node-lease"
MOST_AHEAD: Final = timedelta(seconds=2)
"""So far apart clocks may be: less than a lease lasts, with room for a request."""
SOON: Final = timedelta(days=30)
_SYNCHRONISE: Final = "let chrony or systemd-timesyncd set the clocks; leases and time limits rely on them"
_RENEW: Final = {
    "client": "get a kubeconfig with a new certificate, or use a token that is renewed by itself",
    "authority": "replace the authority in the kubeconfig before it ends (kubeadm certs renew, or your provider's way)",
}


async def examine(client: Client, version: str) -> list[Finding]:
    """Look at the installation on the cluster of `client`, as its user; `version` is that of this program."""
    now = datetime.now(UTC)
    found = judge_certificates(client.expiries, now)
    try:
        leases = {
            namespace: (await client.list(LEASES, namespace)).items for namespace in (NODE_LEASES, SYSTEM_NAMESPACE)
        }
    except ApiError as error:
        found.append(_unseen("leases", error))
        leases = {}
    found += judge_clocks([lease for those in leases.values() for lease in those], datetime.now(UTC))
    deployments = []
    for name in ROLES:
        try:
            deployments.append(await client.get(DEPLOYMENTS, name, SYSTEM_NAMESPACE))
        except NotFound:
            continue
        except ApiError as error:
            found.append(_unseen(f"Deployment {name}", error))
    found += judge_roles(deployments, leases.get(SYSTEM_NAMESPACE, ()), version, now)
    if deployments:
        try:
            found += judge_policies((await client.list(ADMISSIONPOLICIES)).items)
        except ApiError as error:
            found.append(_unseen("admission policies", error))
    return found


def _unseen(what: str, error: ApiError) -> Finding:
    remedy = "repeat it as an administrator of the cluster"
    return Finding("installation", Level.NOTE, what, f"could not be looked at: {error.message or error}", remedy)


def judge_certificates(expiries: Mapping[str, int], now: datetime) -> list[Finding]:
    """Certificates of the way to the API server; `expiries` in seconds since the epoch."""
    found = []
    for name, seconds in sorted(expiries.items()):
        ends = datetime.fromtimestamp(seconds, UTC)
        text = f"ends on {ends:%Y-%m-%d}"
        level = Level.BLOCKS if ends <= now else Level.WARNING if ends <= now + SOON else Level.OK
        remedy = "" if level is Level.OK else _RENEW.get(name, "renew it")
        found.append(Finding("certificates", level, f"{name} certificate", text, remedy))
    return found


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def judge_clocks(leases: Iterable[Object], now: datetime) -> list[Finding]:
    """Clocks that are ahead of ours: a lease cannot have been renewed in the future."""
    found, seen = [], 0
    for lease in leases:
        renewed = _moment(str((lease.get("spec") or {}).get("renewTime") or ""))
        if renewed is None:
            continue
        seen += 1
        if renewed > now + MOST_AHEAD:
            ahead = (renewed - now).total_seconds()
            text = f"its clock is {ahead:.0f} s ahead of the one here"
            found.append(Finding("clocks", Level.WARNING, lease["metadata"]["name"], text, _SYNCHRONISE))
    if seen and not found:
        text = f"no holder of {seen} leases is ahead of the clock here by over {MOST_AHEAD.seconds} s"
        found.append(Finding("clocks", Level.OK, "leases", text))
    return found


def judge_database_clock(theirs: datetime, now: datetime) -> Finding:
    """The database's clock beside ours."""
    apart = abs((theirs - now).total_seconds())
    if apart > MOST_AHEAD.seconds:
        text = f"its clock and the one here are {apart:.0f} s apart"
        return Finding("clocks", Level.WARNING, "database", text, _SYNCHRONISE)
    return Finding("clocks", Level.OK, "database", "its clock agrees with the one here")


def judge_roles(deployments: Iterable[Object], leases: Iterable[Object], version: str, now: datetime) -> list[Finding]:
    """The Deployments of the roles: whether they are available and of one version; and who leads, whoever it is."""
    found: list[Finding] = []
    images: dict[str, str] = {}
    for deployment in deployments:
        name = deployment["metadata"]["name"]
        spec, status = deployment.get("spec") or {}, deployment.get("status") or {}
        containers = (((spec.get("template") or {}).get("spec")) or {}).get("containers") or ()
        images[name] = str(containers[0].get("image", "")) if containers else ""
        wanted, available = spec.get("replicas", 1), status.get("availableReplicas") or 0
        if available < wanted:
            text = f"{available} of {wanted} replicas are available"
            remedy = f"kubectl -n {SYSTEM_NAMESPACE} describe deployment {name}, and the logs of its pods"
            found.append(Finding("roles", Level.BLOCKS if not available else Level.WARNING, name, text, remedy))
    tags = {image.rpartition(":")[2] for image in images.values() if ":" in image.rpartition("/")[2]}
    if len(tags) > 1:
        text = f"run different versions: {', '.join(sorted(tags))}"
        remedy = "finish the upgrade: two versions beside each other are meant for the time of one"
        found.append(Finding("versions", Level.WARNING, "roles", text, remedy))
    elif tags and tags != {version}:
        text = f"run version {', '.join(tags)}, this program is {version}"
        found.append(Finding("versions", Level.NOTE, "roles", text, "use the program of the same version"))
    by_name = {lease["metadata"]["name"]: lease.get("spec") or {} for lease in leases}
    # `t9ksched up` on this cluster leads without a Deployment; once it is stopped nobody needs to.
    judged = [_led(name, by_name.get(name, {}), now) for name in LEADING]
    found += [one for one in judged if images or one.level is Level.OK]
    if images and not any(one.check in ("roles", "versions") and one.level is not Level.OK for one in found):
        found.append(Finding("roles", Level.OK, "deployments", f"{len(images)} roles are available"))
    return found


def _led(name: str, lease: Object, now: datetime) -> Finding:
    renewed = _moment(str(lease.get("renewTime") or ""))
    holder = lease.get("holderIdentity")
    if not holder or renewed is None:
        remedy = f"look at the logs of {name}: it waits for its lease, the cluster or the database"
        return Finding("roles", Level.BLOCKS, name, "nobody leads", remedy)
    past = (now - renewed).total_seconds()
    if past > (lease.get("leaseDurationSeconds") or 0):
        text = f"{holder} has not renewed its lease for {past:.0f} s"
        return Finding("roles", Level.BLOCKS, name, text, f"look at the logs of {name}, and at the API server")
    return Finding("roles", Level.OK, name, f"{holder} leads")


def judge_policies(policies: Iterable[Object]) -> list[Finding]:
    """Whether the policies that hold our accounts to their fields are there."""
    count = sum(policy["metadata"]["name"].startswith("t9ksched-") for policy in policies)
    if not count:
        text = "are not installed: the service accounts may write whatever their roles name"
        remedy = "kubectl apply -f deploy/admission.yaml (Kubernetes 1.30 or later)"
        return [Finding("rules", Level.NOTE, "admission policies", text, remedy)]
    return [Finding("rules", Level.OK, "admission policies", f"{count} are installed")]
