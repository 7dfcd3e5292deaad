"""The manifests for other projects are those of the table, and give no right on anything else."""

from pathlib import Path

import pytest
import yaml

from t9ksched.kube.setup.foreign_rights import manifest
from t9ksched.kube.setup.rbac import API, CONTROLLER, FOREIGN_ROLES, PROJECTS, ROLES, SCHEDULER, foreign_rules, rights
from t9ksched.workloads.addons import ADDONS
from t9ksched.workloads.gangform import Project
from t9ksched.workloads.registry import ROWS

FOLDER = Path(__file__).parents[4] / "deploy" / "foreign"


def test_there_is_a_file_for_each_project() -> None:
    assert {path.stem for path in FOLDER.glob("*.yaml")} == {project.name for project in PROJECTS}


@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project.name)
def test_each_is_current(project: Project) -> None:
    text = (FOLDER / f"{project.name}.yaml").read_text()
    assert text == manifest(project), "run make reference"
    kinds = [item["kind"] for item in yaml.safe_load_all(text)]
    policies = ["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"]
    roles = sum(bool(foreign_rules(project, role)) for role in FOREIGN_ROLES)
    if project in {addon.project for addon in ADDONS}:
        assert kinds == ["ClusterRole", "ClusterRoleBinding"] * (roles + 1) + policies
        return
    assert kinds == ["ClusterRole", "ClusterRoleBinding"] * roles + (policies if "patch" in text else [])


def test_the_roles_of_the_base_name_none_of_these_kinds() -> None:
    foreign = {row.resource.group for row in ROWS if row.foreign is not None}
    assert not [right for role in ROLES for right, _ in rights(role) if right.group in foreign]


@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project.name)
def test_nothing_but_suspension_is_written(project: Project) -> None:
    verbs = {role: {verb for rule in foreign_rules(project, role) for verb in rule.verbs} for role in (SCHEDULER, API)}
    assert verbs[SCHEDULER] <= {"get", "list", "watch", "patch"}
    assert verbs[API] <= {"get", "create", "delete", "patch"}


def test_the_controllers_make_objects_of_those_projects_alone_that_their_workloads_consist_of() -> None:
    made = {addon.project: {res.plural for res in addon.made} for addon in ADDONS}
    for project in PROJECTS:
        rules = foreign_rules(project, CONTROLLER)
        assert {plural for rule in rules for plural in rule.resources} == made.get(project, set())
