"""What the dev cluster's own CEL and JSON patch cost beside libraries that do the same.

    uv run --with cel-python --with common-expression-language --with jsonpatch python -m tests.benchmarks.libraries

Rules are those of the shipped definitions, on a training job with twenty environment variables; the patch is four
operations on a pod. Rounds alternate. Printed is one JSON object: CPU in µs a rule or a patch, the median of the
rounds; CPU in ms and memory in MiB of an import in a process of its own; how many rules a library decides otherwise. A
library that is not installed is left out.
"""

import argparse
import copy
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from t9ksched.devcluster.apiserver import cel, patch
from t9ksched.kube.setup.crds import read
from t9ksched.packaged import folder
from tests.benchmarks.timing import report

IMPORTS = {
    "ours, CEL": "t9ksched.devcluster.apiserver.cel",
    "cel-python": "celpy",
    "common-expression-language": "cel",
    "ours, JSON patch": "t9ksched.devcluster.apiserver.patch",
    "jsonpatch": "jsonpatch",
}
CONTAINER = {"name": "main", "image": "x", "env": [{"name": str(number), "value": "v" * 20} for number in range(20)]}
REPLICAS = {"type": "worker", "replicas": 3, "template": {"spec": {"containers": [CONTAINER]}}}
SPEC = {
    "scheduler": {"t9kScheduler": {"queue": "q"}},
    "replicaSpecs": [REPLICAS],
    "worker": REPLICAS,
    "runMode": {"pause": {"enabled": False}},
    "elastic": {"enabled": True, "minReplicas": 1, "maxReplicas": 4, "expectedReplicas": 2},
}
POD: dict[str, Any] = {
    "metadata": {"name": "p", "managedFields": [{"fieldsV1": {f"f:{number}": {} for number in range(60)}}]},
    "spec": {"containers": [CONTAINER], "tolerations": [{"key": "a"}, {"key": "b"}]},
    "status": {"conditions": [{"type": "Ready", "status": "False"}]},
}
OPERATIONS = [
    {"op": "add", "path": "/metadata/annotations", "value": {"a": "b"}},
    {"op": "replace", "path": "/status/conditions/0/status", "value": "True"},
    {"op": "test", "path": "/spec/tolerations/0/key", "value": "a"},
    {"op": "remove", "path": "/spec/tolerations/1"},
]
IMPORTING = (
    "import time; began = time.process_time(); import {module}; spent = time.process_time() - began;"
    "print(spent, next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmRSS')))"
)


def rules(node: Any) -> Iterator[str]:
    """Every validation rule below a node of a definition."""
    if isinstance(node, dict):
        yield from (each["rule"] for each in node.get("x-kubernetes-validations") or ())
    for inner in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from rules(inner)


def deciders(texts: list[str], scope: dict[str, Any]) -> dict[str, Callable[[], list[bool]]]:
    """What decides all rules once, by name; rules are compiled before."""
    programs = [cel.parse(text) for text in texts]
    found: dict[str, Callable[[], list[bool]]] = {
        "ours, CEL": lambda: [bool(program.evaluate(scope)) for program in programs]
    }
    if find_spec("celpy"):
        celpy = import_module("celpy")
        environment = celpy.Environment()
        compiled = [environment.program(environment.compile(text)) for text in texts]

        def by_celpy() -> list[bool]:
            values = {name: celpy.json_to_cel(value) for name, value in scope.items()}
            return [bool(program.evaluate(values)) for program in compiled]

        found["cel-python"] = by_celpy
    if find_spec("cel"):
        library = import_module("cel")
        built = [library.compile(text) for text in texts]
        found["common-expression-language"] = lambda: [bool(program.execute(scope)) for program in built]
    return found


def patchers() -> dict[str, Callable[[], Any]]:
    """What patches the pod once, by name."""
    found: dict[str, Callable[[], Any]] = {"ours, JSON patch": lambda: patch.apply(POD, OPERATIONS)}
    if find_spec("jsonpatch"):
        library = import_module("jsonpatch")
        found["jsonpatch"] = lambda: library.apply_patch(POD, OPERATIONS)
    return found


def in_turns(acts: dict[str, Callable[[], Any]], each: int, rounds: int) -> dict[str, float]:
    """CPU in µs of one of `each` parts of an act, the median of the rounds."""
    spent: dict[str, list[float]] = {name: [] for name in acts}
    for _ in range(rounds):
        for name, act in acts.items():
            times, began = 0, time.process_time()
            while time.process_time() - began < 0.2:
                act()
                times += 1
            spent[name].append(1e6 * (time.process_time() - began) / times / each)
    return {name: round(statistics.median(found), 1) for name, found in spent.items()}


def importing(module: str) -> dict[str, float]:
    """The least CPU, in ms, and the memory, in MiB, of a process that imports the module."""
    command = [sys.executable, "-c", IMPORTING.format(module=module)]
    runs = [subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() for _ in range(5)]
    cpu, memory = min((float(seconds), int(kibibytes)) for seconds, kibibytes in runs)
    return {"cpu_ms": round(1e3 * cpu, 1), "rss_mib": memory // 1024}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    texts = sorted({rule for definition in read(folder("crds")) for rule in rules(definition)})
    changed = copy.deepcopy(SPEC)
    changed["elastic"]["expectedReplicas"] = 3  # type: ignore[index]
    deciding = deciders(texts, {"self": changed, "oldSelf": SPEC})
    ours = deciding["ours, CEL"]()
    report(
        "libraries",
        options.record,
        rules=len(texts),
        rule_us=in_turns(deciding, len(texts), options.rounds),
        decided_otherwise={
            name: sum(one != other for one, other in zip(act(), ours, strict=True)) for name, act in deciding.items()
        },
        patch_us=in_turns(patchers(), 1, options.rounds),
        imports={name: importing(module) for name, module in IMPORTS.items() if find_spec(module)},
    )


if __name__ == "__main__":
    main()
