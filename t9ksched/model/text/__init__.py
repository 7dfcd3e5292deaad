"""Foreign text: YAML read within limits, so that no text costs more than its length."""

from t9ksched.model.text.limits import Limits, YamlFault
from t9ksched.model.text.reader import read, read_all
from t9ksched.model.text.tree import compose
from t9ksched.model.text.writer import write

__all__ = ["Limits", "YamlFault", "compose", "read", "read_all", "write"]
