"""How a command says that it could not do what was asked.

A `Failure` is what went wrong, where, and what to do about it; `main` prints it and leaves with its exit code. Commands
raise it and never print an error themselves, so that a person never sees a traceback and a program can trust the code.
"""

from collections.abc import Sequence

REQUEST_FAILED = 1
BAD_USAGE = 2


class Failure(Exception):
    """One refused or impossible request.

    `message` is a sentence, `details` are lines that say where (field paths), `remedy` says what to do next.
    `code` is the exit code: 1 when the request failed, 2 when the command was misused.
    """

    def __init__(
        self, message: str, *, details: Sequence[str] = (), remedy: str = "", code: int = REQUEST_FAILED, name: str = ""
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details = tuple(details)
        self.remedy = remedy
        self.code = code
        self.name = name

    def to_dict(self) -> dict[str, object]:
        """As `-o json` shows it; `code` is the service's code, empty when it was not the service that refused."""
        return {"code": self.name, "message": self.message, "details": list(self.details), "remedy": self.remedy}


class Away(Failure):
    """No answer came, or none but to come later: the service may be there again soon."""


class Nowhere(Failure):
    """Nobody said where the service is."""
