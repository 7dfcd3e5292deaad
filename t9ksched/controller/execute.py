"""Carrying out what has been decided about one workload: status, trials of updates, updates, deletions, creations,
events, in this order.

Every write has a precondition: status and updates the version they were computed from, a deletion the UID, a creation
the name. A name that is taken by the workload's own object counts as created; if the object has another owner, an event
tells the user. Secrets are created and never read: `workloads.keypair` says how the owner of an existing one is known.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

from t9ksched.controller.sshkeys import SecretMaker
from t9ksched.kube import resources
from t9ksched.kube.errors import AlreadyExists, ApiError, BadRequest, Conflict, Forbidden, NotFound, Unprocessable
from t9ksched.kube.port import ClusterPort, Object
from t9ksched.model.reasons import Code
from t9ksched.workloads import taken
from t9ksched.workloads.actions import Actions, metadata, name_of, owned_by, uid_of
from t9ksched.workloads.upkeep import follow

_NO_DRY_RUNS: Final = "does not support dry run"
"""What the API server answers to a dry run that would meet a webhook with side effects."""
_AT_ONCE = 16
"""Creations and deletions of one workload in flight."""

Record = Callable[..., None]
"""`record(obj, reason, message, type=…)`, as an EventRecorder offers it."""


class Stale(Exception):
    """The workload changed since it was read: look again at what it is now."""


class NameTaken(Exception):
    """An object the workload needs exists already and belongs to another owner."""


class NotMade(Exception):
    """The API server refuses an object that the workload needs, or a change of it, for what the workload's spec says;
    `reason` is that of the event and of the condition.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason: Final = reason


class Executor:
    """Carries out actions on one cluster.

    `wrote(old, new)`, `updated(sent, new)` and `made(new)` are told of each workload written and each object updated or
    created, so that the picture need not wait for the watch to bring it.
    """

    def __init__(
        self,
        client: ClusterPort,
        record: Record,
        make: SecretMaker,
        *,
        wrote: Callable[[Object, Object], None] = lambda old, new: None,
        updated: Callable[[Object, Object], None] = lambda sent, new: None,
        made: Callable[[Object], None] = lambda new: None,
    ) -> None:
        self._client = client
        self._record = record
        self._make = make
        self._wrote = wrote
        self._updated = updated
        self._made = made

    async def carry_out(self, obj: Object, actions: Actions) -> None:
        """Do everything, or stop at the first failure.

        Raises:
            Stale: the workload is not what was read.
            NameTaken, NotMade: an event has said so, and the status is to; try again later.
            ApiError: the server refused or did not answer; try again later.
        """
        if actions.status is not None:
            await self._write_status(obj, actions.status)
        for each in actions.tried:
            await self._replace(obj, each, dry_run=True)
        for each in actions.update:
            await self._update(obj, each)
        await self._each(actions.delete, self._delete)
        companions = [each for each in actions.create if each["kind"] != "Pod"]
        fresh: dict[tuple[str, str], Object] = {}
        for each in companions:
            if each["kind"] == "Secret":
                await self._create_secret(obj, each, fresh)
            elif (made := await self._create(obj, each)) is not None:
                fresh[made["kind"], name_of(made)] = made
        await self._each([each for each in actions.create if each["kind"] == "Pod"], lambda p: self._create(obj, p))
        for event in actions.events:
            self._record(obj, event.reason, event.message, type=event.type)

    async def tell(self, obj: Object, status: Object) -> None:
        """Write a status by itself.

        Raises:
            Stale: the workload is not what was read.
            ApiError: the server refused or did not answer.
        """
        await self._write_status(obj, status)

    async def _write_status(self, obj: Object, status: Object) -> None:
        try:
            written = await self._client.replace_status(resources.of(obj), {**obj, "status": status})
        except (Conflict, NotFound) as error:
            raise Stale(str(error)) from error
        self._wrote(obj, written)

    async def _update(self, owner: Object, thing: Object) -> None:
        self._updated(thing, await self._replace(owner, thing))

    async def _replace(self, owner: Object, thing: Object, *, dry_run: bool = False) -> Object:
        what = f"{thing['kind']} {name_of(thing)}"
        try:
            return await self._client.replace(resources.of(thing), thing, dry_run=dry_run)
        except (Conflict, NotFound) as error:
            raise Stale(f"{what} is not what was seen") from error
        except (BadRequest, Forbidden, Unprocessable) as error:
            if dry_run and _NO_DRY_RUNS in error.message:
                return thing  # what the webhook says shows in the change itself
            message = f"{what}: {error.message}"
            self._record(owner, taken.FAILED_UPDATE, message, type="Warning")
            raise NotMade(taken.FAILED_UPDATE, message) from error

    async def _each(self, objects: Any, act: Callable[[Object], Any]) -> None:
        """Act on all, some at a time; the first failure is raised once the others have ended."""
        places = asyncio.Semaphore(_AT_ONCE)

        async def one(thing: Object) -> None:
            async with places:
                await act(thing)

        results = await asyncio.gather(*(one(each) for each in objects), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _delete(self, thing: Object) -> None:
        try:
            await self._client.delete(
                resources.of(thing), name_of(thing), metadata(thing).get("namespace"), uid=uid_of(thing)
            )
        except (NotFound, Conflict):
            return  # it is gone, or its name belongs to a successor: nothing is left to delete

    async def _create(self, owner: Object, thing: Object) -> Object | None:
        """The object as created; None if it was there already and is ours."""
        try:
            made = await self._client.create(resources.of(thing), thing, metadata(thing)["namespace"])
        except AlreadyExists as error:
            await self._check_ours(owner, thing, error)
            return None
        except (BadRequest, Forbidden, Unprocessable) as error:
            message = f"{thing['kind']} {name_of(thing)}: {error.message}"
            self._record(owner, taken.FAILED_CREATE, message, type="Warning")
            if isinstance(error, Forbidden):
                raise
            raise NotMade(taken.FAILED_CREATE, message) from error
        self._made(made)
        return made

    async def _create_secret(self, owner: Object, secret: Object, fresh: Mapping[tuple[str, str], Object]) -> None:
        """Create the Secret of a workload with the ConfigMap that was created just now as its owner, and write its
        name on the ConfigMap.
        """
        holder = metadata(secret)["ownerReferences"][0]
        config = fresh.get((holder["kind"], holder["name"]))
        if config is None:
            raise Stale(f"{holder['kind']} {holder['name']} was made by an earlier try")
        what = f"Secret {name_of(secret)}"
        thing, noted = self._make.filled(secret, config, f"{name_of(owner)}.{metadata(owner)['namespace']}")
        try:
            await self._client.create(resources.SECRETS, thing, metadata(secret)["namespace"])
        except AlreadyExists as error:
            message = (
                f"{what} exists already and was not made for this {owner['kind']}. It goes on when that object is gone:"
                f" one of an earlier try goes by itself; delete any other (kubectl delete secret/{name_of(secret)} -n"
                f" {metadata(secret)['namespace']}), or submit this {owner['kind']} again"
            )
            self._record(owner, str(Code.NAME_TAKEN), message, type="Warning")
            raise NameTaken(message) from error
        except (Forbidden, Unprocessable) as error:
            self._record(owner, "FailedCreate", f"{what}: {error.message}", type="Warning")
            raise
        await self._update(owner, noted)

    async def _check_ours(self, owner: Object, thing: Object, error: ApiError) -> None:
        what = f"{thing['kind']} {name_of(thing)}"
        try:
            there = await self._client.get(resources.of(thing), name_of(thing), metadata(thing)["namespace"])
        except NotFound:
            raise Stale(f"{what} was there and is gone") from error
        if owned_by(there, uid_of(owner)):
            self._made(there)
            if (
                better := follow(there, thing)
            ) is not None:  # such as one whose labels, which we watch by, were taken off
                await self._update(owner, better)
        elif metadata(there).get("deletionTimestamp"):
            raise Stale(f"{what} of before is still going") from error
        else:
            message = taken.sentence({**there, "kind": thing["kind"]}, owner["kind"])
            self._record(owner, str(Code.NAME_TAKEN), message, type="Warning")
            raise NameTaken(message) from error
