"""The protocol of actions: one way to give a gang its minimum, tried when the gang has its turn."""

from collections.abc import Sequence
from typing import ClassVar, Protocol

import msgspec

from t9ksched.engine.blocks import Block
from t9ksched.engine.cycle import Cycle
from t9ksched.engine.scheduling_key import SchedulingKey
from t9ksched.engine.work import Work
from t9ksched.model.gang import Gang, Member
from t9ksched.model.reasons import Reason


class Turn(msgspec.Struct):
    """The turn of a gang.

    Attributes:
        members: those that make up what is missing of its minimum; `key` is what they ask for.
        behind: why its strict queue lets it pass no gang; it may then use only the room that is reserved for it.
        had: the start that was planned for it; nothing keeps its room now.
        reasons: why it has no place; empty when it has one.
    """

    gang: Gang
    members: Sequence[Member]
    key: SchedulingKey
    behind: tuple[Reason, ...]
    had: Block | None = None
    reasons: tuple[Reason, ...] = ()


class Action(Protocol):
    """One way of giving a gang its minimum.

    Attributes:
        needs: the action runs only if `scheduler.conf` names this one.
    """

    needs: ClassVar[str]

    def __init__(self, cycle: Cycle) -> None: ...

    def attempt(self, turn: Turn) -> Work[bool]:
        """Try it, in slices; true ends the turn, false passes it on to the next action.

        It either commits to the trial and charges the queue, or leaves both as they were and writes the reasons into
        the turn.
        """
        ...
