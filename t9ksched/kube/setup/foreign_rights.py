"""The manifests of `deploy/foreign`: rights on the kinds of other projects, a file for each project.

An administrator applies those of the projects that the cluster has. `python -m t9ksched.kube.setup.foreign_rights
FOLDER` writes them, from the table of kinds.
"""

import sys
from collections.abc import Iterable
from pathlib import Path

from t9ksched.kube.setup.rbac import CONTROLLER, FOREIGN_ROLES, PROJECTS, SCHEDULER, Rule, foreign_rules
from t9ksched.model.names import SCHEDULER_GROUP, SYSTEM_NAMESPACE
from t9ksched.workloads.addons import ADDONS, Addon
from t9ksched.workloads.gangform import Project

_RBAC = "rbac.authorization.k8s.io"
_POLICY = """apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: NAME}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
RULES---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: NAME}
spec: {policyName: NAME, validationActions: [Deny]}
"""
_SAME = " &&\n      ".join(
    f"(has(object.metadata.{one}) ? object.metadata.{one} : {none}) ==\n"
    f"      (has(oldObject.metadata.{one}) ? oldObject.metadata.{one} : {none})"
    for one, none in (("labels", "{}"), ("annotations", "{}"), ("ownerReferences", "[]"), ("finalizers", "[]"))
)
_MADE = """  matchConditions:
  - name: controller
    expression: >-
      has(request.userInfo.username) && request.userInfo.username == 'system:serviceaccount:SPACE:t9ksched-controller'
  validations:
  - expression: >-
      [object, oldObject].all(one, one == null || has(one.metadata.ownerReferences) &&
      one.metadata.ownerReferences.exists(each, has(each.controller) && each.controller && each.kind == 'KIND'))
    message: the controllers make, change and delete only what belongs to KINDs
    reason: Forbidden
"""
_SUSPENDED = f"""  matchConditions:
  - name: ours
    expression: >-
      has(request.userInfo.username) && request.userInfo.username in [
      'system:serviceaccount:SPACE:t9k-scheduler', 'system:serviceaccount:SPACE:t9ksched-api']
  variables:
  - {{name: new, expression: "dyn(has(object.spec) ? object.spec : {{}})"}}
  - {{name: old, expression: "dyn(has(oldObject.spec) ? oldObject.spec : {{}})"}}
  - name: changed
    expression: >-
      variables.new.filter(key, !(key in variables.old) || variables.new[key] != variables.old[key]) +
      variables.old.filter(key, !(key in variables.new))
  - name: stops
    expression: >-
      ('suspend' in variables.changed && variables.new.suspend == true) ||
      ('runPolicy' in variables.changed && has(variables.new.runPolicy.suspend) &&
      variables.new.runPolicy.suspend == true) || variables.changed == []
  validations:
  - expression: variables.changed.all(key, key in ['suspend', 'runPolicy'] && key in variables.new)
    message: t9ksched changes nothing of a job of another project but whether it runs
    reason: Forbidden
  - expression: >-
      !('runPolicy' in variables.changed) ||
      variables.new.runPolicy.all(key, key == 'suspend' || 'runPolicy' in variables.old &&
      key in variables.old.runPolicy && variables.new.runPolicy[key] == variables.old.runPolicy[key]) &&
      (!('runPolicy' in variables.old) || variables.old.runPolicy.all(key, key in variables.new.runPolicy))
    message: t9ksched changes nothing of a run policy but whether the job is suspended
    reason: Forbidden
  - expression: >-
      request.userInfo.username != 'system:serviceaccount:SPACE:t9k-scheduler' || variables.stops
    message: the scheduler suspends and never resumes
    reason: Forbidden
  - expression: >-
      {_SAME}
    message: t9ksched changes no job's labels, annotations, owners and finalizers
    reason: Forbidden
"""


def manifest(project: Project) -> str:
    """The roles and bindings of a project, as YAML."""
    head = (
        f"# What t9ksched may do with the jobs of {project.title}, in a cluster that has it. Written by\n"
        "# `make reference` from the table of kinds; apply it beside the base:\n"
        f"# kubectl apply -f deploy/foreign/{project.name}.yaml\n"
    )
    parts = [*(_of(project, role) for role in FOREIGN_ROLES), _policy(project)]
    parts += [text for addon in ADDONS if addon.project == project for text in (_owning(addon), _made(addon))]
    return head + "---\n".join(filter(None, parts))


def _of(project: Project, role: str) -> str:
    lines = []
    for rule in foreign_rules(project, role):
        lines.append(f"# {rule.why[0].upper()}{rule.why[1:]}.")
        listed = (f"{key}: [{', '.join(values)}]" for key, values in rule.to_dict().items())
        lines.append(f"- {{{', '.join(listed)}}}")
    return _bound(f"{role}-{project.name}", lines, role, SYSTEM_NAMESPACE) if lines else ""


def _bound(name: str, rules: Iterable[str], account: str, space: str) -> str:
    """A role with these lines of rules, and its binding to an account."""
    lines = [
        f"apiVersion: {_RBAC}/v1",
        "kind: ClusterRole",
        f"metadata: {{name: {name}}}",
        "rules:",
        *rules,
        "---",
        f"apiVersion: {_RBAC}/v1",
        "kind: ClusterRoleBinding",
        f"metadata: {{name: {name}}}",
        f"roleRef: {{apiGroup: {_RBAC}, kind: ClusterRole, name: {name}}}",
        f"subjects: [{{kind: ServiceAccount, name: {account}, namespace: {space}}}]",
    ]
    return "\n".join(lines) + "\n"


def _policy(project: Project) -> str:
    """What these rights are not for: of the objects only the field by which they are suspended is written. Empty for
    kinds that nothing is written of.
    """
    rules = [rule for rule in foreign_rules(project, SCHEDULER) if "patch" in rule.verbs]
    if not rules:
        return ""
    about = "Of these objects only the field that suspends them is written; the scheduler never lets one run."
    return _guarded(about, f"t9ksched-{project.name}", rules, "UPDATE", _SUSPENDED)


def _owning(addon: Addon) -> str:
    """Lets the controllers of a project make pods for this scheduler that have an owner."""
    space, account = addon.account
    rule = f"- {{apiGroups: [{SCHEDULER_GROUP}], resources: [pods], verbs: [own]}}"
    about = f"# {addon.project.title} makes pods for this scheduler. Change the account if it has another one.\n"
    return about + _bound(f"t9ksched-{addon.project.name}-own", [rule], account, space)


def _made(addon: Addon) -> str:
    """What the rights of the controllers are not for."""
    about = f"The controllers make, change and delete only what belongs to {addon.kind}s."
    name, rules = f"t9ksched-controller-{addon.project.name}", foreign_rules(addon.project, CONTROLLER)
    return _guarded(about, name, rules, "CREATE, UPDATE, DELETE", _MADE.replace("KIND", addon.kind))


def _guarded(about: str, name: str, rules: Iterable[Rule], operations: str, checks: str) -> str:
    """A policy of these operations on what the rules are on, with its binding; `checks` is the rest of its spec."""
    resources = "".join(
        f'    - {{apiGroups: [{rule.group}], apiVersions: ["*"], operations: [{operations}],'
        f" resources: [{', '.join(rule.resources)}]}}\n"
        for rule in rules
    )
    checks = checks.replace("SPACE", SYSTEM_NAMESPACE)
    return f"# {about}\n" + _POLICY.replace("NAME", name).replace("RULES", resources + checks)


def write(folder: Path) -> None:
    """Write the file of each project."""
    folder.mkdir(exist_ok=True)
    for project in PROJECTS:
        (folder / f"{project.name}.yaml").write_text(manifest(project))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
