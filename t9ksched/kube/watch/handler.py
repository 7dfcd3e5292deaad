"""The protocols by which a reflector reports the objects that it follows."""

from typing import Any, Protocol, TypeVar, runtime_checkable

from t9ksched.kube.watch.identity import Identity

T_contra = TypeVar("T_contra", contravariant=True)


class Handler(Protocol[T_contra]):
    """Receives the objects that a reflector follows. The calls are synchronous and must be quick: the stream waits for
    them.
    """

    def on_replace(self, items: list[Any]) -> None:
        """The first list, whole; called once, before anything else."""

    def on_upsert(self, obj: T_contra) -> None:
        """The object is new or changed. A successor of the same name comes after the `on_delete` of the old one."""

    def on_delete(self, obj: T_contra) -> None:
        """The object is gone; `obj` is its last known state, or what the server sent with the deletion."""


@runtime_checkable
class PieceHandler(Protocol):
    """A handler that takes the first list in pieces, so that 100,000 objects neither block the event loop nor are in
    memory twice.
    """

    def on_piece(self, items: list[Any]) -> None:
        """Objects of the first list, instead of `on_replace`, as they are read; an empty list comes last.

        When reading has to begin anew, an object may come again in a newer state, and its deletion before the end.
        """


@runtime_checkable
class IdentityHandler(Protocol):
    """A handler that needs only the identity of a deleted object: the reflector then keeps no objects."""

    def on_gone(self, identity: Identity) -> None:
        """The object is gone; called instead of `on_delete`."""
