"""Five replicas of eight cards ask for more than the queue may ever hold: refused at once, with what to do."""

from t9ksched.cli.demo import jobs
from t9ksched.cli.demo.scenes.queues import QUOTAS
from t9ksched.cli.demo.stage import Stage, Unexpected
from t9ksched.cli.failure import Failure

KIND, NAME, REPLICAS, CARDS = "PyTorchTrainingJob", "giant", 5, 8


async def play(stage: Stage) -> None:
    """Submit it, read the refusal, and see that nothing of it was made."""
    asked = REPLICAS * CARDS
    async with stage.step(f"{KIND} {NAME}: {asked} cards in a queue of {QUOTAS['a100']}; refused") as step:
        try:
            await stage.submit(jobs.pytorch(NAME, "a100", REPLICAS, CARDS))
        except Failure as refusal:
            if refusal.name != "OverQuota":
                raise
            step.note = "\n".join([f"{refusal.name}: {refusal.message}", *refusal.details, refusal.remedy]).rstrip()
        else:
            raise Unexpected(f"a job of {asked} cards was accepted")
    async with stage.step("and nothing of it was made"):
        try:
            await stage.job(KIND, NAME)
        except Failure as failure:
            if failure.name != "NotFound":
                raise
        else:
            raise Unexpected("the refused job exists")
