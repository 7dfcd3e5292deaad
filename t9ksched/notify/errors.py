"""Why a notification was not sent."""


class NotSent(Exception):
    """It was not, as far as is known. The message is shown to the user: it has no secret and nothing of the answer.

    With `gone` the receiver says that it wants no more.
    """

    def __init__(self, message: str, *, gone: bool = False) -> None:
        super().__init__(message)
        self.gone = gone
