"""An AutoTuneExperiment through random histories: no trial is made twice, and no result is lost.

Its trials' jobs run, end, vanish and are paused; programs send results; its spec changes as the definition lets it; and
the controller dies after any of its actions.
"""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from tests.unit.workloads.builders import experiment
from tests.unit.workloads.test_experiment import Trials

ASSESSED = {"builtinAssessorName": "Medianstop", "classArgs": '{"start_step": 1}'}
GRID = {"lr": {"_type": "choice", "_value": [1, 2, 3]}}
SAMPLES = [
    experiment(maxTrialNum=4),
    experiment(assessor=ASSESSED, maxExecSeconds=200),
    experiment(tuner="GridSearch", space=GRID, trialConcurrency=3),
    experiment(tuner="TPE", trialConcurrency=3),
]
ENDED = ("Succeeded", "Failed")
OVER = ("DONE", "ERROR", "TIMEOUT")


class Machine(RuleBasedStateMachine):
    """One experiment, the jobs of its trials, and a controller that may die."""

    @initialize(sample=st.sampled_from(SAMPLES))
    def submit(self, sample: dict[str, Any]) -> None:
        self.world = Trials(sample)
        self.parameters: dict[int, Any] = {}
        self.results: dict[int, Any] = {}

    def chosen(self, which: int) -> int | None:
        jobs = [
            name
            for name, job in self.world.jobs().items()
            if job.get("status", {}).get("phase") not in ("Succeeded", "Failed")
        ]
        return int(jobs[which % len(jobs)].removeprefix("hpo-")) if jobs else None

    @rule(which=st.integers(0, 5), phase=st.sampled_from(("Pending", "Running", "Running", "Paused", "Failed")))
    def a_job_goes_on(self, which: int, phase: str) -> None:
        if (number := self.chosen(which)) is not None:
            self.world.shows(number, phase, reason="JobPaused")

    @rule(which=st.integers(0, 5), said=st.sampled_from(("0.5", "2", "none")))
    def a_job_succeeds(self, which: int, said: str) -> None:
        if (number := self.chosen(which)) is not None:
            self.world.shows(number, "Succeeded", says=said)

    @rule(which=st.integers(0, 5), values=st.lists(st.integers(0, 3), max_size=3), ends=st.booleans())
    def results_are_sent(self, which: int, values: list[int], ends: bool) -> None:
        if (number := self.chosen(which)) is not None:
            self.world.sent(number, *values, final=1.0 if ends else None)

    @rule(which=st.integers(0, 5), going=st.booleans())
    def a_job_vanishes(self, which: int, going: bool) -> None:
        if jobs := list(self.world.jobs().values()):
            job = jobs[which % len(jobs)]
            if going:
                job["metadata"]["deletionTimestamp"] = self.world.now.isoformat()
            else:
                del self.world.objects[job["kind"], job["metadata"]["name"]]

    @rule(which=st.integers(0, 5))
    def a_token_is_lost(self, which: int) -> None:
        if found := sorted(name for kind, name in self.world.objects if kind == "ConfigMap"):
            del self.world.objects["ConfigMap", found[which % len(found)]]
            self.world.collect()

    @rule(on=st.booleans())
    def pause_or_resume(self, on: bool) -> None:
        self.world.obj["spec"]["runMode"] = {"pause": {"enabled": on}}

    @rule(most=st.integers(1, 8), at_once=st.integers(1, 4))
    def other_numbers(self, most: int, at_once: int) -> None:
        self.world.obj["spec"] |= {"maxTrialNum": most, "trialConcurrency": at_once}

    @rule(seconds=st.sampled_from((1, 30, 150)))
    def time_passes(self, seconds: int) -> None:
        self.world.later(seconds)

    @rule(data=st.data())
    def the_controller_dies_after_some_of_its_actions(self, data: st.DataObject) -> None:
        actions = self.world.plan()
        self.world.carry_out(actions, data.draw(st.integers(0, len(self.world.steps(actions)))))

    @rule()
    def the_controller_works(self) -> None:
        self.world.carry_out(self.world.plan())

    @rule()
    def all_ends_well(self) -> None:
        """Nothing disturbs any more, and every job ends: the experiment does."""
        world = self.world
        world.obj["spec"]["runMode"] = {"pause": {"enabled": False}}
        for _ in range(12):
            for (kind, name), job in list(world.objects.items()):
                if job["metadata"].get("deletionTimestamp"):
                    del world.objects[kind, name]
            world.settle()
            for name, job in world.jobs().items():
                if job.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
                    world.shows(int(name.removeprefix("hpo-")), "Succeeded", says="1")
        world.settle()
        assert not world.plan()
        assert world.status["phase"] in OVER
        assert not {"Pending", "Running"} & set(world.phases())
        assert not [key for key in world.objects if key[0] in ("ConfigMap", "Secret")]
        if world.status["phase"] == "DONE":
            wanted = world.obj["spec"]["maxTrialNum"]
            grid = world.obj["spec"]["tuner"]["builtinTunerName"] == "GridSearch"
            assert len(world.phases()) >= (min(3, wanted) if grid else wanted) or self.over_before

    over_before = False

    @invariant()
    def trials_and_results_stay(self) -> None:
        if not hasattr(self, "world"):
            return
        status = self.world.status
        self.over_before |= status.get("phase") in OVER
        trials = status.get("trials", [])
        assert [each["number"] for each in trials] == list(range(len(trials)))
        assert len(trials) >= len(self.parameters)
        for each in trials:
            assert self.parameters.setdefault(each["number"], each["parameters"]) == each["parameters"]
            if each["phase"] in ("Succeeded", "Failed", "Stopped"):
                found = each["phase"], each.get("value"), each["completionTime"]
                assert self.results.setdefault(each["number"], found) == found
            else:
                assert each["number"] not in self.results

    @invariant()
    def every_job_is_that_of_a_trial_on_record(self) -> None:
        if not hasattr(self, "world"):
            return
        trials = {each["name"]: each for each in self.world.status.get("trials", [])}
        for name, job in self.world.jobs().items():
            env = job["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"][0]["env"]
            told = next(each["value"] for each in env if each["name"] == "T9KSCHED_TRIAL_PARAMETERS")
            assert json.loads(told) == trials[name]["parameters"]


def run(examples: int, steps: int) -> None:
    usual = settings(
        max_examples=examples, stateful_step_count=steps, deadline=None, suppress_health_check=list(HealthCheck)
    )
    run_state_machine_as_test(Machine, settings=usual)


def test_no_trial_is_made_twice_and_no_result_is_lost() -> None:
    run(15, 25)


@pytest.mark.soak
def test_many_histories() -> None:
    run(300, 50)
