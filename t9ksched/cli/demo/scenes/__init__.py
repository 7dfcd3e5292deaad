"""The scenes in the order they play: a title and a function of the stage each."""

from collections.abc import Awaitable, Callable

from t9ksched.cli.demo.scenes import foreign, gangs, planned, queues, quota, rack, urgent, waiting
from t9ksched.cli.demo.stage import Stage

SCENES: tuple[tuple[str, Callable[[Stage], Awaitable[None]]], ...] = (
    ("Two pools of cards, a queue for each", queues.play),
    ("A gang that must be in one rack starts whole in one", rack.play),
    ("A large gang gets a planned start: others pass it only where they do not delay it", planned.play),
    ("Three kinds of jobs start whole, on cards by index", gangs.play),
    ("A pod of another scheduler takes cards: charged, and left alone", foreign.play),
    ("A gang too large for what is free waits whole, and says why", waiting.play),
    ("A job larger than its queue's quota is refused at submission", quota.play),
    ("An urgent queue takes the room of exactly one lower gang", urgent.play),
)
