"""Kinds of other projects (read only): the pods that their own controllers make, by the form of their gangs."""

from t9ksched.workloads.fields import Field
from t9ksched.workloads.gangform import GangForm
from t9ksched.workloads.gangs import counted
from t9ksched.workloads.podspec import read_template
from t9ksched.workloads.shape import Template


def read(form: GangForm | None, root: Field) -> list[Template]:
    """The templates of the pods that are placed here; all of them where none is."""
    assert form is not None
    groups = counted(form, root)
    mine = [one for one in groups if one.ours] or groups
    times = root.at(*form.parts).whole(1) if form.parts else 1
    return [read_template(one.template, one.role, one.replicas * times, one.least * min(1, times)) for one in mine]
