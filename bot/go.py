"""What waits for `/ultracode go`: three waits, each with its own reason, each answered by one go.

In: a run's reason to wait. Out: the piece that says who let it go on. Why a piece: whoever takes
the run over must know what was allowed, and a comment that is handled twice must not answer the
wait that came after the one it was written for.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from bot.clock import now
from bot.contracts import Trigger, UserRef
from bot.run_pieces import RunPieces
from workspace.contracts import Frozen

#: The request's words are those of somebody without write access.
OUTSIDERS_WORDS: Final = "outsiders_words"
#: Policy asks that somebody sees the plan before anybody works on it (`plan_approval`).
PLAN: Final = "plan"
#: Policy, or outsiders' words in the request, hold every push (`publish.rounds: on_go`).
PUBLISH: Final = "publish"
WAITS: Final = (OUTSIDERS_WORDS, PLAN, PUBLISH)

GO_PATIENCE: Final = timedelta(days=7)


class Go(Frozen):
    """Somebody with write access let a run go on, by this comment."""

    who: UserRef
    trigger: Trigger


def go_key(reason: str) -> str:
    """Return the key of the piece that answers a wait."""
    return f"go:{reason}"


async def load_goes(pieces: RunPieces) -> tuple[Go, ...]:
    """Return who let a run go on so far: their words are part of the request from then on."""
    goes = [await pieces.load(go_key(reason), Go) for reason in WAITS]
    return tuple(go for go in goes if go is not None)


def go_deadline() -> datetime:
    """Return until when a go is awaited."""
    return now() + GO_PATIENCE
