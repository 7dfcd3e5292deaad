"""A training job, an MPI job and a notebook: each starts whole, and its cards are known by index."""

from t9ksched.cli.demo import jobs
from t9ksched.cli.demo.stage import Stage

CASES = (
    ("PyTorchTrainingJob resnet: 4 replicas × 4 cards", jobs.pytorch("resnet", "a100", 4, 4), 4, 16),
    ("MPIJob walk: a launcher and 3 workers × 4 cards", jobs.mpi("walk", "a40", 3, 4), 4, 12),
    ("Notebook lab: one card", jobs.notebook("lab", "a100", 1), 1, 1),
)


async def play(stage: Stage) -> None:
    """Submit them one by one, and read back the cards."""
    for title, job, members, cards in CASES:
        kind, name = job["kind"], job["metadata"]["name"]
        async with stage.step(title) as step:
            await stage.submit(job)
            await stage.running(kind, name, members)
            held = await stage.holding(kind, name, cards)
            step.note = "cards " + "  ".join(f"{node}:{','.join(map(str, cards))}" for node, cards in held.items())
