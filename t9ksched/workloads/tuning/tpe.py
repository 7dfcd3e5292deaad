"""Suggestions by the tree-structured Parzen estimator of optuna: a study in memory is made of the trials so far.

Quantised parameters are numbers of steps there. What is drawn from a normal distribution is its probability, which is
even by chance.
"""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import NormalDist, fmean
from typing import Any, Final

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from t9ksched.workloads.tuning.settings import Tuner
from t9ksched.workloads.tuning.space import Parameter, Space, Value, exponential
from t9ksched.workloads.tuning.trials import Trial

_STARTUP: Final = 10
"""Trials that are drawn by chance before anything is estimated."""
_EDGE: Final = 1e-6
_SUPPOSED: Final[Mapping[str, Callable[[list[float]], float]]] = {"min": min, "max": max, "mean": fmean}


def suggest(space: Space, before: Sequence[Trial], seed: int, tuner: Tuner) -> Mapping[str, Value]:
    """Parameters for another trial. Trials that run count as the tuner says, so that others are tried meanwhile."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=_STARTUP, constant_liar=tuner.parallel)
        study = optuna.create_study(sampler=sampler, direction="maximize" if tuner.maximize else "minimize")
        ways = {each.name: _distribution(each) for each in space}
        told = [each if not each.live else _supposed(each, before, tuner) for each in before]
        study.add_trials([made for trial in told if trial and (made := _known(space, ways, trial)) is not None])
        asked = study.ask(dict(ways))
    return {each.name: _value(each, asked.params[each.name]) for each in space}


def _supposed(trial: Trial, before: Sequence[Trial], tuner: Tuner) -> Trial | None:
    """A trial that runs as it counts: not at all, or with the result that the tuner supposes. It is as it was where the
    tuner supposes none, or there is no result yet.
    """
    if not tuner.parallel:
        return None
    results = [each.value for each in before if each.phase == "Succeeded" and each.value is not None]
    if not (tuner.liar and results):
        return trial
    return replace(trial, phase="Succeeded", value=_SUPPOSED[tuner.liar](results))


def _known(space: Space, ways: dict[str, BaseDistribution], trial: Trial) -> optuna.trial.FrozenTrial | None:
    """A trial of the experiment as one of the study; None if it tells nothing."""
    if trial.phase == "Failed" or trial.parameters.keys() != ways.keys():
        return None
    inner = {each.name: _inner(each, trial.parameters[each.name]) for each in space}
    states = optuna.trial.TrialState
    state = states.RUNNING
    more: dict[str, Any] = {}
    if trial.phase == "Succeeded":
        state, more = states.COMPLETE, {"value": trial.value}
    elif trial.phase == "Stopped":
        steps = {} if trial.value is None else {trial.step or 0: trial.value}
        state, more = states.PRUNED, {"intermediate_values": steps}
    return optuna.trial.create_trial(state=state, params=inner, distributions=ways, **more)


def _distribution(parameter: Parameter) -> BaseDistribution:
    method, values = parameter.method, parameter.values
    if method == "choice":
        return CategoricalDistribution(list(range(len(values))))
    if method == "randint":
        return IntDistribution(values[0], values[1] - 1)
    if "normal" in method:
        return FloatDistribution(_EDGE, 1 - _EDGE)
    low, high, step = float(values[0]), float(values[1]), parameter.step
    if not step:
        return FloatDistribution(low, high, log=method == "loguniform")
    first, last = round(low / step), round(high / step)
    if method == "qloguniform":
        return IntDistribution(max(1, first), max(1, last), log=True)
    return IntDistribution(first, last)


def _value(parameter: Parameter, inner: Any) -> Value:
    if parameter.method == "choice":
        option: Value = parameter.values[inner]
        return option
    if parameter.method == "randint":
        return int(inner)
    if "normal" in parameter.method:
        number = NormalDist(*map(float, parameter.values[:2])).inv_cdf(inner)
        return parameter.quantised(exponential(number) if "log" in parameter.method else number)
    return parameter.quantised(inner * parameter.step if parameter.step else inner)


def _inner(parameter: Parameter, value: Any) -> Any:
    if parameter.method == "choice":
        return next((at for at, one in enumerate(parameter.values) if (type(one), one) == (type(value), value)), 0)
    if parameter.method == "randint":
        return int(value)
    if "normal" in parameter.method:
        number = math.log(max(float(value), 1e-300)) if "log" in parameter.method else float(value)
        share = NormalDist(*map(float, parameter.values[:2])).cdf(number)
        return min(max(share, _EDGE), 1 - _EDGE)
    way = _distribution(parameter)
    inner = round(float(value) / parameter.step) if parameter.step else float(value)
    return min(max(inner, way.low), way.high) if isinstance(way, IntDistribution | FloatDistribution) else inner
