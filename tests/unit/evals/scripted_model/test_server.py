from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from openai import AsyncOpenAI
from pydantic import BaseModel

from evals.scripted_model import ScriptedModel, parse_script, running

DEVELOPER = {"role": "developer", "content": "Role: worker\nTask: fix\nRound: 0\n\nsha: abc123"}
LOOK: Any = {
    "type": "function",
    "name": "look",
    "parameters": {"type": "object", "properties": {}},
    "strict": False,
}


class Answer(BaseModel):
    sha: str
    note: str


def _client(model: ScriptedModel, **options: Any) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=model.base_url, api_key=model.api_key, **options)


def _ask(client: AsyncOpenAI, **changes: Any) -> Any:
    wanted: dict[str, Any] = {"model": "gpt-5.4-mini", "input": [DEVELOPER], **changes}
    return client.responses.create(**wanted)


async def test_the_real_client_parses_a_structured_answer() -> None:
    """The official client's own parser gets the scripted output, its bindings echoed."""
    script = parse_script(
        """
        entries:
          - role: worker
            turns:
              - output: {sha: "${sha}", note: "left $alone"}
                usage: {input: 100, cached: 60, output: 7, reasoning: 3}
        """
    )
    async with running(script) as model, _client(model) as client:
        wanted: Any = {"model": "gpt-5.4-mini", "input": [DEVELOPER], "text_format": Answer}
        response = await client.responses.parse(**wanted)
    assert response.output_parsed == Answer(sha="abc123", note="left $alone")
    assert response.usage.total_tokens == 107
    assert response.usage.input_tokens_details.cached_tokens == 60
    assert response.usage.output_tokens_details.reasoning_tokens == 3


async def test_a_tool_call_is_answered_and_continued_by_response_id() -> None:
    """A stored response can be continued; an unknown one cannot."""
    script = parse_script(
        """
        entries:
          - role: worker
            turns: [{calls: [{tool: look}]}, {text: done}]
        """
    )
    async with running(script) as model, _client(model) as client:
        first = await _ask(client, tools=[LOOK])
        call = next(item for item in first.output if item.type == "function_call")
        answer: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "a cat"}
        second = await _ask(client, tools=[LOOK], input=[answer], previous_response_id=first.id)
        assert second.output_text == "done"
        with pytest.raises(openai.BadRequestError, match="not found"):
            await _ask(client, input=[answer], previous_response_id="resp_gone")


async def test_a_stream_carries_the_same_answer() -> None:
    """Asked for a stream, the client sees text and calls grow and complete."""
    script = parse_script(
        """
        entries:
          - role: worker
            turns: [{text: thinking aloud, calls: [{tool: look, arguments: {at: x}}]}]
        """
    )
    async with running(script) as model, _client(model) as client:
        wanted: Any = {"model": "gpt-5.4-mini", "input": [DEVELOPER], "tools": [LOOK]}
        async with client.responses.stream(**wanted) as stream:
            kinds = [event.type async for event in stream]
            response = await stream.get_final_response()
    assert kinds[0] == "response.created"
    assert kinds[-1] == "response.completed"
    assert "response.output_text.delta" in kinds
    assert "response.function_call_arguments.done" in kinds
    assert response.output_text == "thinking aloud"
    assert json.loads(response.output[-1].arguments) == {"at": "x"}


async def test_a_wrong_key_is_refused() -> None:
    """Neither answers nor models are given to a wrong key."""
    script = parse_script("entries: [{role: worker, turns: [{text: a}]}]")
    async with running(script) as model:
        async with AsyncOpenAI(base_url=model.base_url, api_key="sk-wrong") as client:
            with pytest.raises(openai.AuthenticationError):
                await _ask(client)
            with pytest.raises(openai.AuthenticationError):
                await client.models.list()
        async with _client(model) as client:
            assert [m.id async for m in client.models.list()] == ["gpt-5.4-mini"]
            with pytest.raises(openai.NotFoundError):
                await client.models.retrieve("gpt-0")


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("entries: [{role: planner, turns: [{text: a}]}]", "No entry"),
        ("entries: [{role: worker, turns: [{calls: [{tool: fly}]}]}]", "'fly'"),
        ('entries: [{role: worker, turns: [{output: "${digest}"}]}]', "digest"),
    ],
)
async def test_an_unscripted_request_says_whose_it_was(script: str, words: str) -> None:
    """A request the script has no answer for gets an error that names role, task and round."""
    async with running(parse_script(script)) as model, _client(model) as client:
        with pytest.raises(openai.UnprocessableEntityError) as error:
            await _ask(client)
    assert "role worker, task fix, round 0, turn 0" in str(error.value)
    assert words in str(error.value)
    assert [a.outcome for a in model.asked] == ["unscripted"]


async def test_faults_come_first_and_are_used_up() -> None:
    """A client that retries gets through as many faults as the script has, and no more."""
    script = parse_script(
        """
        entries:
          - role: worker
            turns:
              - text: at last
                faults:
                  - {kind: 429, times: 2, retry_after_seconds: 0.01}
                  - {kind: 500, retry_after_seconds: 0.01}
                  - {kind: truncated}
        """
    )
    async with running(script) as model, _client(model, max_retries=4) as client:
        response = await _ask(client)
    assert response.output_text == "at last"
    assert [a.outcome for a in model.asked] == [
        "fault 429",
        "fault 429",
        "fault 500",
        "fault truncated",
        "answered",
    ]


async def test_a_timeout_holds_until_the_client_leaves() -> None:
    """A scripted timeout never answers; the server notices that the client has gone."""
    script = parse_script(
        "entries: [{role: worker, turns: [{text: a, faults: [{kind: timeout}]}]}]"
    )
    async with running(script) as model, _client(model, max_retries=0, timeout=0.2) as client:
        with pytest.raises(openai.APITimeoutError):
            await _ask(client)
        await model.until(lambda m: bool(m.asked))
    assert model.asked[0].outcome == "fault timeout"


async def test_garbage_is_no_json() -> None:
    """Garbage is a 200 whose body no client can read."""
    script = parse_script(
        "entries: [{role: worker, turns: [{text: a, faults: [{kind: garbage}]}]}]"
    )
    async with running(script) as model, _client(model, max_retries=0) as client:
        with pytest.raises(json.JSONDecodeError):
            await _ask(client)


async def test_an_incomplete_answer_stops_half_way() -> None:
    """An incomplete turn says so and holds half of the text."""
    script = parse_script("entries: [{role: worker, turns: [{text: abcdef, incomplete: true}]}]")
    async with running(script) as model, _client(model) as client:
        response = await _ask(client)
    assert response.status == "incomplete"
    assert response.incomplete_details.reason == "max_output_tokens"
    assert response.output_text == "abc"


async def test_a_refusal_is_no_text() -> None:
    """A refusal comes as its own kind of content."""
    script = parse_script("entries: [{role: worker, turns: [{refusal: I will not.}]}]")
    async with running(script) as model, _client(model) as client:
        response = await _ask(client)
    assert response.output_text == ""
    assert response.output[-1].content[0].refusal == "I will not."


async def test_requests_are_counted_by_role_task_and_round() -> None:
    """Tests in another process can ask what was asked."""
    script = parse_script("entries: [{role: worker, turns: [{text: a, repeat: true}]}]")
    async with running(script) as model, _client(model) as client, httpx.AsyncClient() as http:
        await _ask(client)
        await _ask(client)
        told = (await http.get(model.base_url.removesuffix("/v1") + "/_script/requests")).json()
    assert told["total"] == 2
    assert told["counts"] == [{"role": "worker", "task": "fix", "round": 0, "requests": 2}]
    assert told["requests"][0]["outcome"] == "answered"
    assert model.count("worker", "fix", 0) == 2
    assert model.count("planner") == 0


async def test_it_runs_alone(tmp_path: Path) -> None:
    """The command prints where to find it and what key to use, and ends when told to."""
    script = tmp_path / "script.yaml"
    script.write_text("entries: [{role: worker, turns: [{text: alone}]}]")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "evals.scripted_model", "--script", str(script), "--json",
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        access = json.loads(await process.stdout.readline())
        async with AsyncOpenAI(**access) as client:
            assert (await _ask(client)).output_text == "alone"
    finally:
        os.kill(process.pid, signal.SIGTERM)
        assert await process.wait() == 0
