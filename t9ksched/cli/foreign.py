"""The errors of other packages, as failures of a command."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from t9ksched.cli.failure import BAD_USAGE, Failure


@contextmanager
def failures() -> Iterator[None]:
    """Turn what the settings, the store, the cluster's API and readers of files raise into a Failure."""
    from t9ksched.devcluster.apiserver.journal import CorruptJournal, DirectoryInUse
    from t9ksched.kube.errors import ApiError
    from t9ksched.kube.setup.crds import NotEstablished
    from t9ksched.kube.transport.config import ConfigError
    from t9ksched.model.errors import Invalid
    from t9ksched.serving import PortInUse
    from t9ksched.settings import SettingsError
    from t9ksched.store.errors import StoreError

    try:
        yield
    except Invalid as error:
        lines = [f"{fault.path}: {fault.message}" if fault.path else fault.message for fault in error.errors]
        if len(lines) == 1 and not error.errors[0].path:
            raise Failure(_sentence(lines[0])) from error
        count = "an error" if len(lines) == 1 else f"{len(lines)} errors"
        raise Failure(f"What was given has {count}:", details=lines) from error
    except SettingsError as error:
        raise Failure(_sentence(str(error)), code=BAD_USAGE) from error
    except (
        StoreError,
        ConfigError,
        NotEstablished,
        PortInUse,
        CorruptJournal,
        DirectoryInUse,
    ) as error:
        raise Failure(_sentence(str(error))) from error
    except ApiError as error:
        raise Failure(
            f"The Kubernetes API refused or did not answer: {error}",
            remedy="Check the kubeconfig, and that the cluster can be reached.",
        ) from error


@contextmanager
def first_cause() -> Iterator[None]:
    """Out of the errors of several parts, raise the first one that is an error of its own."""
    try:
        yield
    except BaseExceptionGroup as group:
        cause: BaseException = group
        while isinstance(cause, BaseExceptionGroup):
            cause = cause.exceptions[0]
        raise cause from None


def _sentence(text: str) -> str:
    """With a capital, unless it begins with the name of a file or of something else, and with a full stop."""
    first = text[:1].upper() if re.match(r"[a-z]+[ ,]", text) else text[:1]
    return first + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")
