"""The job of a trial: the experiment's template with the parameters filled in.

`$(parameter.NAME)` in commands, arguments, variables and annotations of pods is replaced where it stands; what is
escaped as `$$(…)` is left to Kubernetes. All parameters are in the variable `T9KSCHED_TRIAL_PARAMETERS`, as JSON.
"""

import copy
import json
import re
from collections.abc import Iterator, Mapping, Set
from typing import Any, Final

from t9ksched.model.errors import FieldError
from t9ksched.model.names import BATCH_API, TRIAL_LABEL
from t9ksched.workloads.actions import Object
from t9ksched.workloads.fields import Field
from t9ksched.workloads.keypair import TOKEN_ANNOTATION
from t9ksched.workloads.parts import Owner, add_env
from t9ksched.workloads.tuning.tokens import secret_name
from t9ksched.workloads.tuning.trials import Trial

NUMBER_VARIABLE: Final = "T9KSCHED_TRIAL"
PARAMETERS_VARIABLE: Final = "T9KSCHED_TRIAL_PARAMETERS"
_FROM_SECRET: Final = (("T9KSCHED_RESULTS_URL", "url"), ("T9KSCHED_RESULTS_TOKEN", "token"))
_REFERENCE: Final = re.compile(r"\$\$|\$\(parameter\.(?P<name>[^()$]+)\)")


def unknown_references(job: Field, known: Set[str]) -> list[FieldError]:
    """References to parameters that the search space does not have, in the spec of a job without faults."""
    names = ", ".join(sorted(known))
    return [
        FieldError(place.path, f"$(parameter.{name[:63]}) is none of the search space: it has {names}")
        for place in _places(job)
        for found in _REFERENCE.finditer(place.text())
        if (name := found["name"]) and name not in known
    ]


def _places(job: Field) -> Iterator[Field]:
    """Every text of a job's spec in which a reference counts."""
    for entry in job["replicaSpecs"].items():
        pod = entry["template"]["spec"]
        yield from (note for _, note in entry["template"]["metadata"]["annotations"].entries())
        for container in (*pod["initContainers"].items(), *pod["containers"].items()):
            yield from (*container["command"].items(), *container["args"].items())
            yield from (each["value"] for each in container["env"].items() if each["value"].present)


def written(value: Any) -> str:
    """A value as a program takes it: texts as they are, the others as JSON writes them."""
    return value if isinstance(value, str) else json.dumps(value)


def trial_job(owner: Owner, kind: str, spec: Mapping[str, Any], trial: Trial, digest: str = "") -> Object:
    """The job of a trial, of that kind, with the spec that the experiment gives it, and the hash of its token."""
    job = copy.deepcopy(dict(spec))
    parameters = dict(trial.parameters)

    def filled(text: Any) -> Any:
        if not isinstance(text, str):
            return text
        return _REFERENCE.sub(lambda found: written(parameters[found["name"]]) if found["name"] else found[0], text)

    told = {NUMBER_VARIABLE: str(trial.number), PARAMETERS_VARIABLE: json.dumps(parameters)}
    for entry in job["replicaSpecs"]:
        template = entry["template"]
        meta = template.setdefault("metadata", None) or {}
        if notes := meta.get("annotations"):
            meta = {**meta, "annotations": {key: filled(text) for key, text in notes.items()}}
        template["metadata"] = {**meta, "labels": {**(meta.get("labels") or {}), TRIAL_LABEL: str(trial.number)}}
        for container in (*(template["spec"].get("initContainers") or ()), *template["spec"]["containers"]):
            for key in ("command", "args"):
                if container.get(key):
                    container[key] = [filled(word) for word in container[key]]
            for variable in container.get("env") or ():
                variable["value"] = filled(variable.get("value"))
                if variable["value"] is None:
                    del variable["value"]
        add_env(template["spec"], told)
        for container in template["spec"]["containers"]:
            given = {each.get("name") for each in container["env"]}
            container["env"] += [
                {"name": name, "valueFrom": {"secretKeyRef": {"name": secret_name(owner, trial), "key": key}}}
                for name, key in _FROM_SECRET
                if name not in given
            ]
    meta = owner.metadata(trial.name, {TRIAL_LABEL: str(trial.number)})
    meta["annotations"] = {**owner.scheduling_annotations, **({TOKEN_ANNOTATION: digest} if digest else {})}
    return {"apiVersion": BATCH_API, "kind": kind, "metadata": meta, "spec": job}
