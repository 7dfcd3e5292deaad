"""Parts of cards: two notebooks on one card, slices, a card that is cordoned, and what counts as how much of a card."""

from typing import Any

from t9ksched.cli.demo import jobs
from t9ksched.cli.demo.stage import NAMESPACE, Stage, Unexpected
from t9ksched.kube.resources import NAMESPACES

QUEUE, CARDS = "share", "5.75"
NODE, CARD = "a40-0", 0
CORE, MEMORY = "vke.volcengine.com/mgpu-core", "vke.volcengine.com/mgpu-memory"
SLICE, SHARED = "nvidia.com/mig-3g.20gb", "nvidia.com/gpu.shared"
_SLICES = (
    (f"Notebook slice: one {SLICE} of an A100", "slice", SLICE, 0.5),
    (f"Notebook turns: one {SHARED}, a card in four", "turns", SHARED, 0.25),
)


async def queue(stage: Stage) -> None:
    """Make the namespace, and a queue that may hold so many cards, however they are divided."""
    async with stage.step(f"namespace {NAMESPACE}, and queue {QUEUE}: at most {CARDS} physical cards of any kind"):
        await stage.kube.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        spec = {
            "quota": {"requests": {"cards": CARDS}},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}},
        }
        await stage.post("/apis/v1/admin/queues", {"name": QUEUE, "labels": {}, "spec": spec})


async def one_card(stage: Stage) -> None:
    """Two notebooks with parts of cards are put on the same one, and other cards stay whole."""
    places = []
    for name in ("ann", "bob"):
        async with stage.step(f"Notebook {name}: 40 % of the cores and 12 GiB of a card of mGPU") as step:
            await stage.submit(jobs.notebook_part(name, QUEUE, {CORE: 40, MEMORY: 12288}))
            await stage.running("Notebook", name, 1)
            places.append(await stage.holding("Notebook", name, 1))
            step.note = "card " + "  ".join(f"{node}:{cards[0]}" for node, cards in places[-1].items())
    async with stage.step("both are on one card, and three are empty"):
        if places[0] != places[1]:
            raise Unexpected(f"they are on {places[0]} and {places[1]}")


async def slices(stage: Stage) -> None:
    """A notebook on a MIG slice, and one on a time slice: counted by number, and each a part of a card."""
    for title, name, resource, share in _SLICES:
        async with stage.step(title) as step:
            await stage.submit(jobs.notebook_part(name, QUEUE, {resource: 1}))
            job = await stage.running("Notebook", name, 1)
            if job["cards"] != share:
                raise Unexpected(f"it counts as {job['cards']} cards")
            step.note = f"counts as {share} of a card"


async def cordon(stage: Stage) -> None:
    """A card of four is cordoned: a job that needs all four says so and waits until it works again."""
    path = f"/apis/v1/admin/nodes/{NODE}/cards/{CARD}"
    async with stage.step(f"card {CARD} of {NODE} is cordoned: fan replaced on Friday"):
        await stage.put(path, {"cordoned": True, "why": "fan replaced on Friday"})
        await stage.until("the cordon", lambda: _card(stage), lambda card: bool(card["cordoned"]))
    async with stage.step("PyTorchTrainingJob tune: one replica with 4 cards; it waits") as step:
        await stage.submit(jobs.pytorch("tune", QUEUE, 1, 4))
        answer = await stage.until(
            "a reason that names the card",
            lambda: stage.explain("PyTorchTrainingJob", "tune"),
            lambda answer: any("CardCordoned" in reason["message"] for reason in answer["reasons"]),
        )
        step.note = "why: " + next(one["message"] for one in answer["reasons"] if "CardCordoned" in one["message"])
    async with stage.step("the card works again, and the job starts"):
        await stage.put(path, {"cordoned": False})
        await stage.running("PyTorchTrainingJob", "tune", 1)
        await stage.holding("PyTorchTrainingJob", "tune", 4)


async def quota(stage: Stage) -> None:
    """The queue holds 0.8 + 0.5 + 0.25 + 4 cards, and 0.4 more are above its quota."""
    async with stage.step("Notebook cat: another 40 %; the quota is used up") as step:
        held = await stage.until("5.55 cards in use", lambda: _held(stage), lambda held: held.get("cards") == "5.55")
        await stage.submit(jobs.notebook_part("cat", QUEUE, {CORE: 40, MEMORY: 12288}))
        answer = await stage.until(
            "a reason to wait",
            lambda: stage.explain("Notebook", "cat"),
            lambda answer: [reason["code"] for reason in answer["reasons"]] == ["QuotaExceeded"],
        )
        step.note = f"the queue holds {held['cards']} cards; why: {answer['reasons'][0]['message']}"


async def _card(stage: Stage) -> dict[str, Any]:
    node = await stage.get(f"/apis/v1/nodes/{NODE}")
    return dict(next(card for card in node["gpus"] if card["index"] == CARD))


async def _held(stage: Stage) -> dict[str, Any]:
    seen = await stage.get(f"/apis/v1/admin/queues/{QUEUE}")
    return dict((seen.get("status") or {}).get("allocated") or {})
