"""One call to the model provider: a request body goes in, a response or ModelUnavailable comes out.

Back-off and retries for 429, 5xx, timeouts and broken connections are the official client's own; an
answer that nobody can read is asked for once more here. The call goes through the client's `post`
and not through `responses.create`, because that walks the whole conversation through its type
definitions each time: 0.9 s of pure computation per call at a hundred turns (measured on openai
3.57), during which nothing else in the process moves.
"""

from __future__ import annotations

from typing import Any, Final

import openai
from openai import AsyncOpenAI
from openai.types.responses import Response
from pydantic import BaseModel

from bot.errors import ModelUnavailable

READINGS: Final = 2
_SHOWN_REASON: Final = 300


async def load_answer(client: AsyncOpenAI, request: dict[str, Any]) -> Response:
    """The provider's answer to a request of the Responses API.

    Raises:
        ModelUnavailable: the provider refused, stayed silent or stayed broken; the sentence is for
            people, status and code are in its details.
    """
    body = request | {"input": [_plain(item) for item in request["input"]]}
    for _ in range(READINGS):
        try:
            response = await client.post("/responses", cast_to=Response, body=body)
        except openai.APIError as error:
            raise _unavailable(error) from error
        except ValueError:  # a body that is no JSON
            continue
        if _is_answer(response):
            return response
    raise ModelUnavailable("The model's server answered with something that is no answer.")


def _plain(item: Any) -> Any:
    return item.model_dump(exclude_none=True) if isinstance(item, BaseModel) else item


def _is_answer(response: object) -> bool:
    """Whether it is a response that has ended, completely or cut short."""
    return (
        isinstance(response, Response)
        and response.status in ("completed", "incomplete")
        and isinstance(response.output, list)
    )


def _unavailable(error: openai.APIError) -> ModelUnavailable:
    if isinstance(error, openai.APITimeoutError):
        return ModelUnavailable("The model did not answer in time, though it was asked again.")
    if isinstance(error, openai.APIConnectionError):
        return ModelUnavailable("The model's server could not be reached.")
    if isinstance(error, openai.APIStatusError):
        status, code = error.status_code, error.code
        return ModelUnavailable(_refusal_sentence(error), status=status, code=code)
    return ModelUnavailable("The model's server answered with something that is no answer.")


def _refusal_sentence(error: openai.APIStatusError) -> str:
    status = error.status_code
    if isinstance(error, openai.AuthenticationError | openai.PermissionDeniedError):
        return f"The model provider refused this server's key ({status})."
    if error.code == "insufficient_quota":
        return "This server's account at the model provider has no quota left."
    if error.code == "context_length_exceeded":
        return "The conversation grew beyond what the model can read."
    if isinstance(error, openai.RateLimitError):
        return "The model provider has too many requests (429) and kept saying so."
    if isinstance(error, openai.InternalServerError):
        return f"The model provider has an error of its own ({status}) and kept it."
    return f"The model provider refused the request ({status}): {_reason(error)}"


def _reason(error: openai.APIStatusError) -> str:
    message = error.body.get("message") if isinstance(error.body, dict) else None
    return str(message or "no reason given")[:_SHOWN_REASON]
