"""What prevents or impairs scheduling on a cluster, and what to do about it: findings as values.

The judgements are pure functions of objects as lists show them; `examine` reads those objects and asks for every right
by a SelfSubjectAccessReview, and changes nothing. A finding that blocks keeps t9ksched from working; a warning is
something that will hurt; a note is worth knowing.
"""

import asyncio
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from t9ksched.kube.errors import ApiError, NotFound
from t9ksched.kube.port import Object
from t9ksched.kube.resources import CRDS, DEVICECLASSES, KOORDINATOR_DEVICES, NODES, PODS, SELFSUBJECTACCESSREVIEWS
from t9ksched.kube.setup.crds import VERSION_LABEL
from t9ksched.kube.setup.devices import NOTHING_PUBLISHED, Published, judge_devices, published
from t9ksched.kube.setup.findings import Finding, Level
from t9ksched.kube.setup.rbac import DISPENSABLE, FOREIGN_ROLES, PROJECTS, ROLES, Right, foreign_rules, rights
from t9ksched.kube.transport.client import Client
from t9ksched.model.cardmode import WHOLE
from t9ksched.model.cards import MOST_INDEXED
from t9ksched.model.dra import NOT_SUPPORTED, dra_only
from t9ksched.model.errors import Invalid
from t9ksched.model.hami import Registered
from t9ksched.model.koordinator import DeviceReport, reported
from t9ksched.model.names import GPU_LINKS_ANNOTATION, SCHEDULER_NAME
from t9ksched.model.node import decode_node, node_facts
from t9ksched.model.pod import container_cards, decode_pod
from t9ksched.model.quantity import QuantityError
from t9ksched.model.readiness import UPGRADE_STATE_LABEL, Failing
from t9ksched.model.resources import NVIDIA_GPU, is_card_resource
from t9ksched.model.validators import OPERATOR_NAMESPACES, Validation, failing, validation
from t9ksched.workloads.addons import ADDONS
from t9ksched.workloads.podgroups import GROUP_OBJECTS
from t9ksched.workloads.registry import ROWS

OLDEST_SERVER: Final = (1, 28)
"""Older servers lack scheduling gates that are on by default, and validation rules in custom kinds."""
NEEDED_KINDS: Final = ("podgroups.scheduler.tensorstack.dev", "queues.scheduler.tensorstack.dev")
_PRODUCT_LABEL: Final = "nvidia.com/gpu.product"
_OTHERS_MARKS: Final = {
    "volcano.sh/node-vgpu-register": "Volcano vGPU",
}
"""By annotation or label of a node: the system that hands out shares of its cards."""
_QUESTIONS_AT_ONCE: Final = 16
_NO_REPORTS: Final[Mapping[str, Registered]] = {}


async def examine(client: Client, definitions: Sequence[Object], roles: Iterable[str] = tuple(ROLES)) -> list[Finding]:
    """Look at the cluster of `client` as its user. `definitions` are the custom kinds of this release.

    Raises:
        ApiError: the server does not answer at all.
    """
    found = [judge_version(msgspec.json.decode(await client.request("GET", "/version")))]
    found += [finding async for finding in _rights(client, roles)]
    found += await _looking(CRDS.plural, lambda: _definitions(client, definitions))
    found += await _looking("kinds of other projects", lambda: _foreign(client, tuple(roles)))
    devices = NOTHING_PUBLISHED
    try:
        devices = await published(client)
        found += judge_devices(devices)
    except ApiError as error:
        found.append(_not_looked_at(DEVICECLASSES.group, error))
    found += await _looking(NODES.plural, lambda: _nodes(client, devices))
    found += await _looking(PODS.plural, lambda: _pods(client))
    return found


async def _looking(what: str, look: Callable[[], Awaitable[list[Finding]]]) -> list[Finding]:
    """The findings of one check; a check that the user's rights do not allow is a finding too."""
    try:
        return await look()
    except ApiError as error:
        return [_not_looked_at(what, error)]


def _not_looked_at(what: str, error: ApiError) -> Finding:
    remedy = "repeat it as an administrator of the cluster"
    return Finding("rights", Level.WARNING, what, f"could not be looked at: {error.message or error}", remedy)


def judge_version(answer: Object) -> Finding:
    """The server's version, from what it answers at `/version`."""
    text = str(answer.get("gitVersion") or "unknown")
    numbers = tuple(int(part) for part in re.findall(r"\d+", text)[:2])
    if len(numbers) == 2 and numbers < OLDEST_SERVER:
        oldest = ".".join(map(str, OLDEST_SERVER))
        return Finding(
            "server", Level.WARNING, text, f"is older than {oldest}, the oldest we know", "update the cluster"
        )
    return Finding("server", Level.OK, text, "answers")


async def _rights(client: Client, roles: Iterable[str]) -> AsyncIterator[Finding]:
    places = asyncio.Semaphore(_QUESTIONS_AT_ONCE)

    async def asked(right: Right) -> bool:
        async with places:
            return await may(client, right)

    for role in roles:
        wanted = list(rights(role))
        answers = await asyncio.gather(*(asked(right) for right, _ in wanted))
        missing: defaultdict[str, list[Right]] = defaultdict(list)
        for (right, why), answer in zip(wanted, answers, strict=True):
            if not answer:
                missing[why].append(right)
        for why, lacking in missing.items():
            names = ", ".join(map(str, lacking))
            remedy = f"kubectl apply -f deploy/rbac.yaml, and bind this user to the role {role}"
            level = Level.WARNING if why in DISPENSABLE else Level.BLOCKS
            yield Finding("rights", level, role, f"may not {names}; with it, it {why}", remedy)
        if not missing:
            yield Finding("rights", Level.OK, role, f"this user has all {len(wanted)} rights of the role")


async def _foreign(client: Client, roles: tuple[str, ...]) -> list[Finding]:
    """Kinds of other projects that the cluster has, and which the user has no rights on."""
    found = []
    for project in PROJECTS:
        kinds = [row.resource for row in ROWS if row.foreign is not None and row.foreign.project == project]
        kinds += [kind for one in GROUP_OBJECTS if one.project == project for kind in one.resources]
        kinds += [kind for addon in ADDONS if addon.project == project for kind in addon.between]
        served = {kind.plural for kind in kinds if await client.serves(kind)}
        for role in roles:
            rules = foreign_rules(project, role) if role in FOREIGN_ROLES else ()
            wanted = [Right(rule.group, one, verb) for rule in rules for one in rule.resources for verb in rule.verbs]
            lacking = [right for right in wanted if right.resource in served and not await may(client, right)]
            if lacking:
                text = f"{project.title} is installed, and {role} may not {', '.join(map(str, lacking))}"
                remedy = f"kubectl apply -f deploy/foreign/{project.name}.yaml"
                found.append(Finding("rights", Level.WARNING, role, text, remedy))
    return found


async def may(client: Client, right: Right) -> bool:
    """Whether the user has a right. Raises ApiError when the server does not say."""
    resource, _, subresource = right.resource.partition("/")
    about = {
        "group": right.group,
        "resource": resource,
        "subresource": subresource,
        "verb": right.verb,
        "namespace": right.namespace,
    }
    review = {
        "apiVersion": SELFSUBJECTACCESSREVIEWS.api_version,
        "kind": SELFSUBJECTACCESSREVIEWS.kind,
        "spec": {"resourceAttributes": {key: value for key, value in about.items() if value}},
    }
    answer = await client.create(SELFSUBJECTACCESSREVIEWS, review)
    return bool((answer.get("status") or {}).get("allowed"))


async def _definitions(client: Client, definitions: Sequence[Object]) -> list[Finding]:
    there: dict[str, Object] = {}
    for definition in definitions:
        name = definition["metadata"]["name"]
        try:
            there[name] = await client.get(CRDS, name)
        except NotFound:
            continue
    return judge_definitions(definitions, there)


def judge_definitions(definitions: Sequence[Object], there: dict[str, Object]) -> list[Finding]:
    """Which of our custom kinds are missing or older than this release."""
    found = []
    remedy = "kubectl apply -f deploy/crds (t9ksched up does it itself)"
    for definition in definitions:
        name = definition["metadata"]["name"]
        ours = (definition["metadata"].get("labels") or {}).get(VERSION_LABEL, "")
        known = there.get(name)
        if known is None:
            level = Level.BLOCKS if name in NEEDED_KINDS else Level.WARNING
            found.append(Finding("kinds", level, name, "is not installed", remedy))
            continue
        version = (known["metadata"].get("labels") or {}).get(VERSION_LABEL, "")
        if _numbers(version) < _numbers(ours):
            text = f"is of release {version}, this is {ours}" if version else f"names no release, this is {ours}"
            found.append(Finding("kinds", Level.WARNING, name, text, remedy))
    if not found:
        found.append(Finding("kinds", Level.OK, f"{len(definitions)} custom kinds", "are installed and current"))
    return found


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


async def _nodes(client: Client, devices: Published) -> list[Finding]:
    nodes = (await client.list(NODES)).items
    try:
        pods = [pod for space in sorted(OPERATOR_NAMESPACES) for pod in (await client.list(PODS, space)).items]
    except ApiError:  # what pods may not be looked at, another check says
        pods = []
    return judge_nodes(nodes, pods, devices, await _reports(client))


async def _reports(client: Client) -> dict[str, Registered]:
    """What nodes of Koordinator report of their cards; none where such objects may not be read or are not served."""
    found = {}
    try:
        items = (await client.list(KOORDINATOR_DEVICES)).items
    except ApiError:
        return {}
    for item in items:
        with suppress(msgspec.ValidationError):
            report = msgspec.convert(item, DeviceReport)
            found[report.metadata.name] = reported(report)
    return found


def judge_nodes(
    nodes: Iterable[Object],
    pods: Iterable[Object] = (),
    devices: Published = NOTHING_PUBLISHED,
    own: Mapping[str, Registered] = _NO_REPORTS,
) -> list[Finding]:
    """GPU nodes that are half ready: cards without a plugin, in the hands of the GPU operator or of DRA, no labels, not
    ready, cordoned, single cards cordoned, shared by others. `pods` are those of the GPU operator, `own` the cards that
    nodes report in objects of their own.
    """
    found: list[Finding] = []
    validations = _validations(pods)
    cards = count = 0
    for node in nodes:
        read = decode_node(node)
        name, labels, annotations = read.metadata.name, read.metadata.labels or {}, read.metadata.annotations or {}
        fails, claimed = validations.get(name, ()), devices.on(name, labels)
        facts = node_facts(read, failing=fails, dra=claimed, reported=own.get(name))
        given = {resource: len(sizes) for resource, sizes in facts.cards.divided.items()}
        given = given or {each: amount for each, amount in facts.allocatable.items() if is_card_resource(each)}

        def say(level: Level, message: str, remedy: str, name: str = name) -> None:
            found.append(Finding("nodes", level, name, message, remedy))

        gone, by_dra = facts.unready, facts.by_dra
        only = dra_only(by_dra)
        if gone is not None:
            meaning = f"{gone.meaning} ({gone.state})" if gone.state else gone.meaning
            say(Level.WARNING, f"its GPUs are not ready and get no pods: {meaning}", gone.remedy)
        if only is None or gone != only:
            for resource, one in by_dra.items():
                say(Level.WARNING, f"{NOT_SUPPORTED}: {one.words(resource)}", one.remedy(resource))
        for resource, one in claimed.items():
            if resource not in by_dra:
                say(
                    Level.WARNING,
                    f"a device plugin offers {resource} and DRA devices of {' and '.join(one.drivers)} there"
                    f" (DeviceClass {one.device_class}): two allocators may give the same card to two pods",
                    "leave one of them on the node; pods get cards from the device plugin here",
                )
        if facts.cards_fault:
            say(
                Level.WARNING,
                f"of what it says of its cards this is not followed, and not given: {facts.cards_fault}",
                "look at the labels of the node, and at the device plugin (or koordlet) on it",
            )
        if gone is None and fails:
            say(
                Level.WARNING,
                f"offers cards, but {', '.join(map(str, fails))}",
                "look at the logs of these pods on the node",
            )
        if labels.get(UPGRADE_STATE_LABEL) == "upgrade-required" and gone is None:
            say(
                Level.NOTE,
                f"waits for its turn to get another driver ({UPGRADE_STATE_LABEL}=upgrade-required): its GPUs get pods"
                " until then",
                f"kubectl cordon {name}, to let its pods end before",
            )
        if not any(given.values()):
            continue
        count, cards = count + 1, cards + sum(given.values())
        if given.get(NVIDIA_GPU) and _PRODUCT_LABEL not in labels:
            say(
                Level.NOTE,
                f"has no label {_PRODUCT_LABEL}: queues cannot select its kind of card",
                "run gpu-feature-discovery",
            )
        conditions = {c.get("type"): c for c in (node.get("status") or {}).get("conditions") or ()}
        ready = conditions.get("Ready") or {}
        if ready.get("status") != "True":
            why = ready.get("message") or ready.get("reason") or "its kubelet says nothing"
            say(Level.WARNING, f"is not ready: {why}", f"kubectl describe node {name}")
        if facts.unschedulable:
            say(Level.NOTE, "is cordoned and takes no new pods", f"kubectl uncordon {name}, when that is over")
        if out := [index for index, why in facts.why_cordoned.items() if not why]:
            listed = ", ".join(map(str, out))
            say(
                Level.NOTE,
                f"{'card' if len(out) == 1 else 'cards'} {listed} of it {'is' if len(out) == 1 else 'are'} cordoned"
                " and take no new work",
                f"t9ksched nodes {name} shows why; uncordon --gpu INDEX, when that is over",
            )
        if idle := {**facts.unhealthy, **{index: why for index, why in facts.why_cordoned.items() if why}}:
            listed = ", ".join(f"{index} ({why})" for index, why in sorted(idle.items()))
            say(Level.NOTE, f"of its cards {listed} take no work", "nothing, if that is meant to be so")
        if facts.links_fault:
            say(
                Level.WARNING,
                f"its annotation is not followed: {facts.links_fault}; its cards are given as without links",
                f"write it as a matrix with a row for each card (nvidia-smi topo -m), or kubectl annotate node {name}"
                f" {GPU_LINKS_ANNOTATION}-",
            )
        for resource, number in sorted(given.items()):
            if number > MOST_INDEXED and facts.mode == WHOLE:
                say(
                    Level.NOTE,
                    f"offers {number} of {resource}: of more than {MOST_INDEXED} cards none has an index",
                    "nothing, if their number is enough: all are used, and counted by number",
                )
        for mark, who in _OTHERS_MARKS.items():
            if mark in annotations or mark in labels:
                say(
                    Level.WARNING,
                    f"its cards are shared out by {who} ({mark})",
                    "keep it out of our queues by their nodeSelector: parts of its cards are not handed out here",
                )
    if not count:
        text, remedy = "no node offers cards", "install a device plugin; pods without cards are placed all the same"
        found.append(Finding("nodes", Level.WARNING, "cluster", text, remedy))
    else:
        found.append(Finding("nodes", Level.OK, "cluster", f"{count} nodes offer {cards} cards"))
    return found


def _validations(pods: Iterable[Object]) -> dict[str, tuple[Failing, ...]]:
    """The validations of the GPU operator that fail, by node."""
    found: defaultdict[str, list[Validation]] = defaultdict(list)
    for item in pods:
        try:
            pod = decode_pod(item)
        except msgspec.ValidationError:
            continue
        if (one := validation(pod)) is not None:
            found[pod.spec.node_name].append(one)
    return {node: failing(those) for node, those in found.items()}


async def _pods(client: Client) -> list[Finding]:
    return judge_pods((await client.list(PODS)).items)


def judge_pods(pods: Iterable[Object]) -> list[Finding]:
    """Other schedulers that bind pods with cards: one finding per scheduler, with the number of cards and the nodes."""
    held: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
    for item in pods:
        try:
            pod = decode_pod(item)
            asked = container_cards(pod.spec, pod.metadata.annotations)
            cards = sum(row.count for row in asked if row.kind != "init")
        except (msgspec.ValidationError, QuantityError, Invalid):
            continue
        if cards and pod.spec.scheduler_name != SCHEDULER_NAME and pod.status.phase not in ("Succeeded", "Failed"):
            held[pod.spec.scheduler_name].append((pod.spec.node_name, cards))
    found = []
    for scheduler, rows in sorted(held.items()):
        nodes = {node for node, _ in rows if node}
        pods_text = "1 pod" if len(rows) == 1 else f"{len(rows)} pods"
        where = f"on {len(nodes)} of the nodes" if nodes else "that wait"
        found.append(
            Finding(
                "schedulers",
                Level.WARNING,
                scheduler,
                f"places {pods_text} with {sum(cards for _, cards in rows)} cards {where}:"
                " both may choose the same card at the same moment",
                f"let those pods name {SCHEDULER_NAME}, or give each scheduler nodes of its own (taints, nodeSelector)",
            )
        )
    return found or [Finding("schedulers", Level.OK, "cluster", "no other scheduler places pods with cards")]
