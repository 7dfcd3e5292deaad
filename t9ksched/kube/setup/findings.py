"""What `t9ksched doctor` found, as values."""

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    BLOCKS = "blocks"


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at: `subject` says where, `message` what is so, `remedy` what to do."""

    check: str
    level: Level
    subject: str
    message: str
    remedy: str = ""

    def to_json(self) -> dict[str, str]:
        """What programs read."""
        return {
            "check": self.check,
            "level": str(self.level),
            "subject": self.subject,
            "message": self.message,
            "remedy": self.remedy,
        }
