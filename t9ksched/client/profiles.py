"""Profiles: what a user leaves out of `run` again and again, under a name, kept beside `client.json`.

The file is for its owner alone, because variables of the environment may be secret. A profile called `default` fills
what is left out where none is named.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from t9ksched.client.errors import ClientError
from t9ksched.client.known import default_data_dir
from t9ksched.model.dns import is_label
from t9ksched.model.duration import parse_duration
from t9ksched.model.quantity import parse
from t9ksched.regular_file import read_file

Profile = dict[str, Any]
"""Values by the words of `run`. Of `env` a value that is None is that of the caller's environment."""
DEFAULT: Final = "default"
VARIABLE: Final = "T9KSCHED_PROFILE"
"""The environment variable that names the profile to use."""
_FILE: Final = "profiles.json"
_LARGEST: Final = 1 << 20
_TEXTS: Final = (
    "image",
    "queue",
    "namespace",
    "gpu_model",
    "gpu_memory",
    "gpu_cores",
    "gpu_resource",
    "cpu",
    "memory",
    "workdir",
    "time_limit",
    "reservation",
)
_NUMBERS: Final = ("gpus", "replicas", "retries", "priority")
_QUANTITIES: Final = ("cpu", "memory", "gpu_memory")
_MAPPINGS: Final = ("env", "annotations")
WORDS: Final = (*_TEXTS, *_NUMBERS, "torchrun", "mounts", *_MAPPINGS)
"""What a profile may say."""


def _unusable(word: str, value: Any) -> str:
    """Why a word can never have this value, or an empty text. Whether a queue is there is seen when a job is run."""
    if word in _TEXTS and not str(value).strip():
        return "is empty: leave it out, or take it out with --unset"
    least = 1 if word == "replicas" else 0
    if word in _NUMBERS and int(value) < least:
        return f"{value} is too few: {least} or more"
    try:
        if word in _QUANTITIES:
            parse(value)
        elif word == "time_limit":
            parse_duration(str(value))
    except ValueError as error:
        return f"{value}: {error}"
    return ""


class Profiles:
    """The profiles in a data directory.

    Raises (all methods):
        ClientError: the file cannot be read or written, or holds something else.
    """

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / _FILE

    def all(self) -> dict[str, Profile]:
        """Every profile, by name."""
        try:
            found = json.loads(read_file(self._path, _LARGEST))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise ClientError(f"{self._path} cannot be read: {error}; correct it or remove it") from error
        if not isinstance(found, dict):
            raise ClientError(f"{self._path} holds no profiles: correct it or remove it")
        for name, profile in found.items():
            if fault := _fault(profile):
                raise ClientError(f"{self._path}: the profile {name!r} {fault}: correct it or remove it")
        return dict(sorted(found.items()))

    def get(self, name: str) -> Profile:
        """The profile of that name.

        Raises:
            ClientError: there is none.
        """
        known = self.all()
        if name not in known:
            there = f"there are {', '.join(known)}" if known else "there are none yet"
            raise ClientError(f"there is no profile {name!r}: {there}")
        return known[name]

    def used(self, name: str | None, environment: Mapping[str, str] = os.environ) -> Profile:
        """The profile that the caller or the environment names, else the one called `default`, if there is one."""
        if named := name or environment.get(VARIABLE):
            return self.get(named)
        return self.all().get(DEFAULT, {})

    def put(self, name: str, profile: Profile) -> None:
        """Keep a profile under a name.

        Raises:
            ValueError: that is no name, or one of the values can never be one.
        """
        if not is_label(name):
            raise ValueError(f"{name!r} is no name of a profile: use at most 63 of a-z, 0-9 and -")
        for word, value in profile.items():
            if fault := _unusable(word, value):
                raise ValueError(f"--{word.replace('_', '-')} {fault}")
        self._write(self.all() | {name: profile})

    def drop(self, name: str) -> None:
        """Forget a profile.

        Raises:
            ClientError: there is none of that name.
        """
        self.get(name)
        self._write({other: one for other, one in self.all().items() if other != name})

    def _write(self, profiles: Mapping[str, Profile]) -> None:
        draft = self._path.with_name(f".{_FILE}.{os.getpid()}")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "w") as file:
                json.dump(dict(sorted(profiles.items())), file, indent=2)
            draft.replace(self._path)
        except OSError as error:
            raise ClientError(f"{self._path} cannot be written: {error.strerror or error}") from error


def filled(given: Mapping[str, Any], profile: Profile) -> dict[str, Any]:
    """What is given, and of the profile what is not: variables and annotations one by one, and all mounts."""
    found = dict(given)
    for word, value in profile.items():
        if word in _MAPPINGS:
            found[word] = {**value, **(given.get(word) or {})}
        elif word == "mounts":
            found[word] = [*value, *(given.get(word) or ())]
        elif word not in given:
            found[word] = value
    return found


def of_environment(name: str | None, environment: Mapping[str, str] = os.environ) -> Profile:
    """The profile that a program names, or its environment, where the command line keeps them.

    Raises:
        ClientError: there is none, or the file cannot be read.
    """
    named = name or environment.get(VARIABLE)
    data_dir = environment.get("T9KSCHED_DATA_DIR")
    return Profiles(Path(data_dir) if data_dir else default_data_dir(environment)).get(named) if named else {}


def _fault(profile: Any) -> str:
    """What is wrong with a profile of the file; empty if nothing is."""
    if not isinstance(profile, dict):
        return "is no mapping"
    for word, value in profile.items():
        if word not in WORDS:
            return f"has {word!r}, which is none of {', '.join(WORDS)}"
        if word in _TEXTS:
            good = isinstance(value, str)
        elif word in _NUMBERS:
            good = isinstance(value, int) and not isinstance(value, bool)
        elif word in _MAPPINGS:
            good = isinstance(value, dict) and all(isinstance(one, str | None) for one in value.values())
        elif word == "mounts":
            good = isinstance(value, list) and all(isinstance(one, str) for one in value)
        else:
            good = isinstance(value, bool)
        if not good:
            return f"has a {word!r} of the wrong type"
    return ""
