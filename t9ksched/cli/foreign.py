"""The errors of other rooms, said as failures of a command."""

from collections.abc import Iterator
from contextlib import contextmanager

from t9ksched.cli.failure import Failure


@contextmanager
def failures() -> Iterator[None]:
    """Turn the errors that the store, the cluster's API and readers of files raise into a Failure."""
    from t9ksched.kube.errors import ApiError
    from t9ksched.model.errors import Invalid
    from t9ksched.store.errors import StoreError

    try:
        yield
    except Invalid as error:
        raise Failure(
            "This cannot be used as it is written.",
            details=[f"{fault.path}: {fault.message}" for fault in error.errors],
        ) from error
    except StoreError as error:
        raise Failure(_sentence(str(error))) from error
    except ApiError as error:
        raise Failure(f"The Kubernetes API refused or did not answer: {error}") from error


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")
