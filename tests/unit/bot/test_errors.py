from bot.errors import BotError, Refusal, RetryLater, RunNotFound, StaleEpoch


def test_the_docstring_is_the_message() -> None:
    """An error raised without words says what its class says, in one paragraph."""
    assert str(RunNotFound()) == "There is no such run."
    assert str(RunNotFound("There is no run 7.")) == "There is no run 7."


def test_details_are_kept_out_of_the_sentence() -> None:
    """Identifiers for logs do not appear in what people read."""
    error = Refusal("No.", run_id="r1")
    assert (str(error), error.sentence, error.details) == ("No.", "No.", {"run_id": "r1"})


def test_a_stale_epoch_passes_whoever_swallows_exceptions() -> None:
    """It is no `Exception`, and no error of the bot that anybody would apologise for."""
    assert not issubclass(StaleEpoch, Exception)
    assert issubclass(RetryLater, BotError)
    assert RetryLater(-3).seconds == 0
