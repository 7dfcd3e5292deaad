"""WorkflowRun: one run of a WorkflowTemplate, whose steps another controller turns into pods, jobs and further runs.

It is read, listed and never written. What its pods request stands in the template, in texts with parameters that are
filled in while it runs: so the object shows no pods, and each is judged when it is made.
"""

from typing import Final

from t9ksched.workloads.fields import Field
from t9ksched.workloads.shape import Template

_NAMED: Final = {
    "params": "say which parameter of the WorkflowTemplate this is",
    "workspaces": "say which workspace of the WorkflowTemplate this is",
}


def read(root: Field) -> list[Template]:
    """No pods; the faults of what every run has."""
    spec = root["spec"]
    named, written = spec["workflowTemplateRef"], spec["workflowTemplateSpec"]
    written.mapping()
    if not named.text() and not written.present:
        named.fault("is missing: name the WorkflowTemplate to run, or write one in workflowTemplateSpec")
    for key in ("serviceAccountName", "timeout"):
        spec[key].text()
    for key, told in _NAMED.items():
        for entry in spec[key].items():
            entry.mapping()
            if not entry["name"].text():
                entry["name"].fault(f"is missing: {told}")
    return []
