"""The schemas of the kinds that are defined here, as their definitions give them to the API server."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import yaml

from t9ksched.model.api_resource import Resource
from t9ksched.packaged import folder


@lru_cache(maxsize=64)
def schema_of(resource: Resource) -> Mapping[str, Any]:
    """The schema of a kind's objects; of kinds that others define, and without the files, one that judges nothing."""
    try:
        text = (folder("crds") / f"{resource}.yaml").read_bytes()
    except OSError:
        return {}
    definition = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    (version,) = (one for one in definition["spec"]["versions"] if one["name"] == resource.version)
    return dict(version["schema"]["openAPIV3Schema"])
