"""Platform services (read only): MLService, Explorer, VirtualServer and the like.

Pods that a kind's controller makes up are counted by the resources the user gave, as far as the object shows any.
"""

from t9ksched.workloads.fields import Field
from t9ksched.workloads.podspec import check_resources, generated_template, read_pod_spec
from t9ksched.workloads.shape import Template


def read_ml_service(root: Field) -> list[Template]:
    """Predictors of all releases, and the transformer; each counted at its minReplicas."""
    spec = root["spec"]
    found = []
    for release in spec["releases"].some("is missing: a service needs at least one release with a predictor"):
        found.append(_scaled(release["predictor"], "predictor", release["name"].text()))
    if spec["transformer"].present:
        found.append(_scaled(spec["transformer"], "transformer", ""))
    return found


def _scaled(part: Field, role: str, release: str) -> Template:
    """A pod that scales by load: its template over the runtime's, then `containersResources` by container name."""
    low, high = part["minReplicas"], part["maxReplicas"]
    minimum = low.whole(1)
    if high.present and high.whole(minimum) and high.whole(minimum) < minimum:
        high.fault(f"{high.value} is less than minReplicas {minimum}")
    name = f"{role}-{release}" if release else role
    template = part["template"]
    spec = dict(template["spec"].mapping())
    containers = [each.value for each in template["spec"]["containers"].items()]
    for entry in part["containersResources"].items():
        before = len(part.faults)
        check_resources(entry["resources"])
        if len(part.faults) > before:
            continue
        patched = {"name": entry["name"].text(), "resources": entry["resources"].value}
        names = [each.get("name") if isinstance(each, dict) else None for each in containers]
        if patched["name"] in names:
            place = names.index(patched["name"])
            containers[place] = {**containers[place], **patched}
        else:
            containers.append(patched)
    if not containers:
        return generated_template(part, "user-container", part["resources"], name, minimum)
    spec["containers"] = containers
    merged = Field(spec, template["spec"].path, part.faults)
    return read_pod_spec(merged, template["metadata"], name, minimum, images=False)


def read_generated(root: Field) -> list[Template]:
    """Explorer, VirtualServer: one pod with `spec.resources`, if any are given."""
    spec = root["spec"]
    return [generated_template(spec, root["kind"].text().lower(), spec["resources"])]


def read_nothing(root: Field) -> list[Template]:
    """WorkflowRun and Project: the object itself shows no pods."""
    return []
