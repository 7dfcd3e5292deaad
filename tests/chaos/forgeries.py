"""Users forge whatever they may write, at any moment of a history, and write it back in the end.

Not every history has that, and what it draws comes from dice of its own: the others stay as they are. Of the jobs half
are forged; the others stand by, and nothing may happen to them. What was agreed when it was forged is what the checker
goes on believing. When faults end, fields are written back as they were: the cluster must be as if nothing had been.
"""

import contextlib
from collections import defaultdict
from collections.abc import Iterable
from functools import cache, partial
from random import Random
from typing import Any

import msgspec

from t9ksched.kube.errors import ApiError
from t9ksched.kube.resources import PODGROUPS, PODS, PVCS
from t9ksched.model.api_resource import Resource
from tests.chaos.asked import Object
from tests.chaos.forged import AGREED, BOUND, FIELDS, Field
from tests.chaos.forgery import end_scheduler
from tests.chaos.invariant_checker import ENDED, OURS
from tests.chaos.script import HORIZON, Happening
from tests.chaos.world import World
from tests.chaos.written import is_accepted, is_placed

SHARE = 0.5
"""Of histories in which fields are forged."""


class Forger:
    """Everything that is forged in one world."""

    def __init__(self, world: World, seed: int) -> None:
        self._world = world
        self._dice = Random(f"forged fields {seed}")
        self._before: dict[tuple[Resource, str, str], Object] = {}
        """By kind, name and UID, each object as it was before it was first forged."""
        self._least: dict[str, int] = {}
        """By UID, the least minimum that was written into a group."""
        self.counts: defaultdict[str, int] = defaultdict(int)
        if "preempt" not in world.policy.actions:
            world.checker.whole = self._untouched

    def draw(self) -> list[Happening]:
        """What is forged when."""
        dice = self._dice
        if dice.random() >= SHARE:
            return []
        found: list[Happening] = []
        for _ in range(dice.randint(3, 9)):
            field, dies = dice.choice(FIELDS), dice.choice((None, None, 0.0, 1.0, 6.0))
            text = f"forged: {field.words}" + ("" if dies is None else f", {dies:g} s later the scheduler dies")
            found.append((dice.uniform(3, HORIZON), text, partial(self.forge, field, Random(dice.random()), dies)))
        return found

    async def forge(self, field: Field, dice: Random, dies: float | None = None) -> None:
        """Write one field of some objects."""
        objects = list(self._objects(field.resource))
        groups = self._world.checker.groups
        others = [
            f"{key.rpartition('/')[2]}/{groups[key]['metadata']['uid']}" for key in sorted(groups) if stands_by(key)
        ]
        for obj in objects:
            if self._may(field, obj) and dice.random() < 0.6:
                body = field.write(dice, obj, others)
                meta, checker = obj["metadata"], self._world.checker
                if field.resource is not PVCS and field.since:
                    checker.agree(obj)
                if field.resource is PODGROUPS:
                    checker.loose.add(f"{meta['namespace']}/{meta['name']}")
                self._before.setdefault((field.resource, meta["name"], meta["uid"]), obj)
                if least := body.get("spec", {}).get("minMember"):
                    self._least[meta["uid"]] = min(least, self._least.get(meta["uid"], least))
                await self._write(field, meta["name"], body)
                self.counts[field.words] += 1
        if dies is not None:
            self._world.also(end_scheduler(self._world, dies))

    def _objects(self, resource: Resource) -> Iterable[Object]:
        """Those of forged jobs, in order of their names."""
        checker = self._world.checker
        known: Any = {PODS: checker.pods, PODGROUPS: checker.groups, PVCS: checker.claims}[resource]
        for key in sorted(known):
            if not stands_by(key):
                yield known[key]

    def _may(self, field: Field, obj: Object) -> bool:
        meta, database = obj["metadata"], self._world.database
        if field.resource is PODS:
            group = self._world.checker.group_of(obj)
            if obj["spec"].get("schedulerName") != OURS or group == {} or obj["status"].get("phase") in ENDED:
                return False
            if field.since == BOUND:
                return obj["status"].get("phase") == "Running" and is_placed(database, meta["uid"])
            meta = group["metadata"] if group else meta
        return field.since != AGREED or is_accepted(database, meta["uid"])

    async def _write(self, field: Field, name: str, body: Object) -> None:
        port, part = self._world.port, "status" if field.status else ""
        with contextlib.suppress(ApiError):
            await port.patch(field.resource, name, "default", body, subresource=part)

    def _untouched(self, pod: Object) -> bool:
        """Whether a pod stands by, and its group has been whole: no gang has a reason to evict it."""
        checker, group = self._world.checker, self._world.checker.group_of(pod)
        if not stands_by(pod["metadata"]["name"]) or group == {}:
            return False
        if group is None:
            return True
        key = f"{group['metadata']['namespace']}/{group['metadata']['name']}"
        mine = [one for one in checker.pods.values() if checker.group_of(one) is group and checker.holds(one)]
        there = [one for one in mine if not one["metadata"].get("deletionTimestamp")]
        return key in checker.ran and len(there) >= int(group["spec"].get("minMember") or 1)

    async def write_back(self) -> None:
        """All fields as they were, of what is still there. Statuses are the scheduler's to mend."""
        self._world.checker.loose.clear()
        self._world.checker.whole = lambda pod: False
        for (resource, name, uid), was in self._before.items():
            with contextlib.suppress(ApiError):
                now = await self._world.port.get(resource, name, "default")
                if now["metadata"]["uid"] != uid:
                    continue
                body: Object = {"metadata": {}}
                for part in ("labels", "annotations"):
                    old, new = was["metadata"].get(part) or {}, now["metadata"].get(part) or {}
                    body["metadata"][part] = {key: old.get(key) for key in {*old, *new} & _written(part)}
                if uid in self._least and f"default/{name}" in self._world.checker.ran:
                    self._world.lowered[name] = self._least[uid]
                body["metadata"]["ownerReferences"] = was["metadata"].get("ownerReferences")
                if resource is PODGROUPS:
                    body["spec"] = {key: was["spec"].get(key) for key in ("queue", "priority", "minMember", "roles")}
                if resource is PVCS and (was["spec"].get("volumeName") or now["spec"].get("volumeName")):
                    continue  # it is bound: where, is decided
                await self._world.port.patch(resource, name, "default", msgspec.json.decode(msgspec.json.encode(body)))


@cache
def _written(part: str) -> frozenset[str]:
    """The labels or annotations that any of the fields may write."""
    bodies = (field.write(Random(number), {"metadata": {}}, []) for field in FIELDS for number in range(60))
    return frozenset(key for body in bodies for key in body.get("metadata", {}).get(part) or {})


def stands_by(name: str) -> bool:
    """Whether no user may forge a job: by the number in its name."""
    digits = "".join(letter for letter in name.rpartition("/")[2].partition("-")[0] if letter.isdigit())
    return bool(digits) and int(digits) % 2 == 0
