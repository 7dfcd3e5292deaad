"""The scenes of each preset in the order they play: a title and a function of the stage each."""

from collections.abc import Awaitable, Callable
from typing import Final

from t9ksched.cli.demo.scenes import foreign, gangs, planned, queues, quota, rack, sharing, urgent, waiting
from t9ksched.cli.demo.stage import Stage

Scene = tuple[str, Callable[[Stage], Awaitable[None]]]

SCENES: Final[dict[str, tuple[Scene, ...]]] = {
    "demo": (
        ("Two pools of cards, a queue for each", queues.play),
        ("A gang that must be in one rack starts whole in one", rack.play),
        ("A large gang gets a planned start: others pass it only where they do not delay it", planned.play),
        ("Three kinds of jobs start whole, on cards by index", gangs.play),
        ("A pod of another scheduler takes cards: charged, and left alone", foreign.play),
        ("A gang too large for what is free waits whole, and says why", waiting.play),
        ("A job larger than its queue's quota is refused at submission", quota.play),
        ("An urgent queue takes the room of exactly one lower gang", urgent.play),
    ),
    "sharing": (
        ("A queue with a quota of physical cards", sharing.queue),
        ("Two notebooks on one card", sharing.one_card),
        ("A MIG slice and a time slice", sharing.slices),
        ("A card is taken out of work", sharing.cordon),
        ("A quota counts parts of cards as the part that they are", sharing.quota),
    ),
}
