"""One exception tree for the bot. In: a sentence, or none. Out: an error whose text people read.

Why: each kind is caught in one place, at the boundary. A `Refusal` is expected, posted on the issue
and ends well; any other `BotError` is recorded, retried and apologised for. The docstring of a
class is its message when it is raised without one, so that the sentence stands where the reader of
the class looks first.
"""

from typing import Any


class BotError(Exception):
    """Something went wrong inside the bot; it was recorded and will be tried again."""

    def __init__(self, sentence: str = "", /, **details: Any) -> None:
        """Keep the sentence for people and the details for logs.

        Args:
            sentence: Overrides the class's docstring.
            details: Identifiers worth logging (never secrets, never repository text).
        """
        self.sentence = sentence or _first_paragraph(type(self))
        self.details = details
        super().__init__(self.sentence)


class Refusal(BotError):
    """This request cannot be taken."""


class UnreadablePiece(Refusal):
    """Another version of the bot stored this run's work, and this one cannot read it.

    Raised for a run that began before an upgrade (or a downgrade) across contract versions.
    """

    def __init__(self, run_id: str, key: str) -> None:
        """Name the piece for the log; people read how to go on."""
        super().__init__(
            "Another version of the bot began this run, and this one cannot read what it stored. "
            "`/ultracode retry` starts anew with the same words.",
            run_id=run_id,
            key=key,
        )


class SettingsError(BotError):
    """A setting is missing or wrong."""


class EmbeddedDatabaseError(BotError):
    """The embedded PostgreSQL could not be started; DATABASE_URL may name another server."""


class StorageError(BotError):
    """The database does not hold what this step needs."""


class RunNotFound(StorageError):
    """There is no such run."""


class LiveRunExists(BotError):
    """This issue already has a run that has not ended; cancel it or wait for its end."""

    def __init__(self, run_id: str) -> None:
        """Name the run that lives."""
        self.run_id = run_id
        super().__init__(run_id=run_id)


class PieceConflict(StorageError):
    """A finished piece of work was about to be replaced by a different one."""


class RetryLater(BotError):
    """GitHub or a provider asked us to come back later; the job is put back with that delay."""

    def __init__(self, seconds: float, sentence: str = "", /, **details: Any) -> None:
        """Put the current job back.

        Args:
            seconds: How long to wait before the job runs again; at least 0.
            sentence: Overrides the class's docstring.
            details: Identifiers worth logging.
        """
        self.seconds = max(0.0, seconds)
        super().__init__(sentence, **details)


class AgentFailure(BotError):
    """An agent could not finish its part of the work."""


class ModelUnavailable(AgentFailure):
    """The model did not answer, though it was asked several times."""


class ModelOutputInvalid(AgentFailure):
    """The model's answer could not be used, and neither could its second try."""


class BudgetExceeded(BotError):
    """This run has used up its budget."""


class StaleEpoch(BaseException):
    """Another worker has claimed this run since; nothing more may be written for it here.

    A BaseException, because Agno swallows every `Exception` that its database raises: only this way
    does a worker that lost its run stop at once.
    """

    def __init__(self, run_id: str, epoch: int) -> None:
        """Name the run and the epoch that is no longer current."""
        self.run_id = run_id
        self.epoch = epoch
        super().__init__(f"run {run_id} is no longer at epoch {epoch}")


def _first_paragraph(kind: type[BotError]) -> str:
    return (kind.__doc__ or BotError.__doc__ or "").strip().split("\n\n", 1)[0]
