"""What may enter a queue.

Each rule is a pure function `(Request) -> Verdict`; `judge` asks them all. One place serves REST and the scheduler's
last gate. A refusal carries a stable code, the fields at fault and what to do about it. Begin at `judge.py`, which has
the rules in their order; `request.py` says what they know.
"""

from t9ksched.admission.judge import judge
from t9ksched.admission.request import Request
from t9ksched.admission.verdict import ALLOWED, Verdict

__all__ = ["ALLOWED", "Request", "Verdict", "judge"]
