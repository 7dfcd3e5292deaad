"""What all shapes build on: problems, reasons, warnings."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Quantities = dict[str, str]


Continue = Annotated[str | None, Field(alias="continue", description="leads to the next page; null on the last one")]


class Body(BaseModel):
    """What a request sends. Shapes describe alone, so what validates them is not built before it is asked for."""

    model_config = ConfigDict(defer_build=True)


class Shape(BaseModel):
    """A JSON object that may grow fields later."""

    model_config = ConfigDict(extra="allow", defer_build=True)


class FieldFault(Shape):
    """One faulty field."""

    path: str
    message: str


class ProblemShape(Shape):
    """Any answer but success (RFC 9457); `code` is stable."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    errors: list[FieldFault] = []
    remedy: str = ""


class ReasonShape(Shape):
    """Why a job waits, or why it failed, briefly."""

    code: str
    message: str


class WarningShape(Shape):
    """Something accepted that is probably a mistake; `nearest` is the known name that is most alike, if one is."""

    path: str
    message: str
    nearest: str | None = None
