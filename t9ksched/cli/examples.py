"""Examples of commands, for `--help`, the reference and man pages. A test holds each to the options that there are."""

from typing import Final

EXAMPLES: Final[dict[str, tuple[str, ...]]] = {
    "demo": ("demo", "demo --preset sharing"),
    "up": ("up", "up --nodes nodes.yaml --port 0 -o json", "up --kubeconfig ~/.kube/config --observe"),
    "run": (
        "run --gpus 4 --image pytorch/pytorch --queue a100 -- python train.py --epochs 10",
        "run --gpus 8 --replicas 2 --image IMAGE --time-limit 4h --follow -- torchrun train.py",
        "run --gpus 1 --image IMAGE --dry-run -- python train.py",
        "run --profile team --array 0-99%8 --name sweep -- python fit.py",
        "run --profile team --gpus 1 --time-limit 8h --pty -- bash",
        "run --profile team --after job/sweep -- python report.py",
    ),
    "submit": (
        "submit job.yaml --queue a100 --time-limit 4h",
        "submit job.yaml --set spec.replicaSpecs[0].replicas=4 --dry-run",
        "submit train.sh --image pytorch/pytorch --mount home:/home",
    ),
    "profile": ("profile set team --image pytorch/pytorch --queue a100", "profile list"),
    "jobs": (
        "jobs --mine",
        "jobs --queue a100 --phase Pending --sort pos",
        "jobs -o custom-columns=JOB,WHO:.submitter",
    ),
    "explain": ("explain pj/resnet", "explain job/sweep", "explain job/fit -n vision -o json"),
    "wait": ("wait pj/resnet --for running --timeout 10m", "wait job/fit --for succeeded"),
    "logs": ("logs pj/resnet -f", "logs pj/resnet --all --since 10m"),
    "exec": ("exec pj/resnet -- nvidia-smi", "exec pj/resnet --rank 1 -- bash"),
    "history": ("history --user ann --since 7d", "history pj/resnet"),
    "pause": ("pause pj/resnet",),
    "resume": ("resume pj/resnet",),
    "scale": ("scale pj/resnet 4",),
    "resubmit": ("resubmit job/fit",),
    "top": ("top", "top --mine --queue a100"),
    "timeline": ("timeline", "timeline --by queues --hours 48"),
    "update": (
        "update pj/resnet --time-limit 2h",
        "update job/sweep --priority 5",
        "update pj/resnet --replicas 4 --yes",
    ),
    "cancel": ("cancel pj/resnet", "cancel job/sweep -n vision --yes"),
    "completion": ("completion bash > ~/.local/share/bash-completion/completions/t9ksched", "completion fish"),
    "hold": ("hold pj/resnet",),
    "release": ("release pj/resnet",),
    "prioritise": ("prioritise pj/resnet --priority 50",),
    "nodes": ("nodes", "nodes a100-0", "nodes a100-0 cordon --gpu 3 --why 'ECC errors'"),
    "queues": (
        "queues list",
        "queues create a100 --quota nvidia.com/gpu=32 --for-namespace vision",
        "queues drain a100",
    ),
    "import": ("import kueue --from-cluster --dry-run", "import volcano -f queues/ --rename default=shared"),
    "reservations": ("reservations list",),
    "usage": ("usage --by month", "usage --by user -o json"),
    "forecast-accuracy": ("forecast-accuracy",),
    "stop-scheduling": ("stop-scheduling --for 1h --why 'new switches'", "stop-scheduling --resume"),
    "notify": ("notify add https://hooks.example.org/3f2a --on ended", "notify list", "notify test 3f2a9c71b0de"),
    "token": ("token create ann", "token list"),
    "simulate": ("simulate replay --jobs trace.swf --format swf --cluster 64x8 --policy easy",),
    "snapshot": ("snapshot > now.json",),
    "manifests": (
        "manifests --set image.repository=registry.example/t9ksched",
        "manifests --values site.yaml --set api.replicas=3",
        "manifests --only crds",
    ),
    "doctor": ("doctor",),
    "db": ("db current", "db upgrade", "db copy --to postgresql://t9ksched@db.example/t9ksched"),
    "uninstall": ("uninstall --dry-run", "uninstall --kinds --save pods.yaml"),
    "scheduler": ("scheduler",),
    "controller": ("controller",),
    "api": ("api",),
}
"""By command, without the program's name."""


def shown(name: str) -> list[str]:
    """The examples of a command, as they are typed; none for one that has none."""
    return [f"t9ksched {one}" for one in EXAMPLES.get(name, ())]
