"""What a system says it did, and what that took.

In: the end of a piece of work. Out: an `Effort`. Whether the end was right is not in it: see
`evals.oracle`.
"""

from __future__ import annotations

from bot.agents.usage import Usage
from evals.casebook import Strict


class Effort(Strict):
    """One system's work on one case; `rounds` counts waves of work, `tools` calls in order.

    `missing_tools` are those a careful plain system would have called and this one did not.
    `broken` holds what must not be, in sentences: a chain with a wrong link, a doubled effect.
    """

    says: str
    ended: str
    usage: Usage = Usage()
    rounds: int = 1
    tools: tuple[str, ...] = ()
    missing_tools: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
