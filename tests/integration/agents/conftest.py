from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import pytest
from pydantic import SecretStr

from bot.agents.briefs import CandidateBrief, RunBrief, WorkBrief
from bot.agents.budget import Spend
from bot.agents.model import Models, Patience
from bot.agents.run import AgentDeps
from bot.agents.usage import Usage
from bot.contracts import Bindings, WorkItem
from bot.errors import BudgetExceeded
from bot.settings import ModelSettings
from evals.scripted_model import ScriptedModel, parse_script, running

RUN_ID = "run12345"


@dataclass
class Notebook:
    """A budget that writes everything down and may have an end, in tokens."""

    limit: int | None = None
    spent: Usage = field(default_factory=Usage)

    @asynccontextmanager
    async def call(self, model_id: str, expected_tokens: int) -> AsyncIterator[Spend]:
        if self.limit is not None and self.spent.total_tokens + expected_tokens > self.limit:
            raise BudgetExceeded("The run has used up its tokens.")

        async def spend(usage: Usage) -> None:
            self.spent += usage

        yield spend


@dataclass
class Stage:
    """One scripted model and the dependencies of agents that speak to it."""

    model: ScriptedModel
    deps: AgentDeps
    budget: Notebook


@pytest.fixture
async def play() -> AsyncIterator[Callable[..., object]]:
    """Serves a script and gives back the stage; everything is closed at the end of the test."""
    async with AsyncExitStack() as stack:

        async def start(script: str, *, limit: int | None = None, **patience: float) -> Stage:
            model = await stack.enter_async_context(running(parse_script(script)))
            settings = ModelSettings(
                id="openai:gpt-5.4-mini",
                api_key=SecretStr(model.api_key),
                base_url=model.base_url,
            )
            models = Models(lambda _: settings, Patience(**{"retries": 2, **patience}))  # type: ignore[arg-type]
            stack.push_async_callback(models.aclose)
            budget = Notebook(limit)
            return Stage(model, AgentDeps(models, budget, RUN_ID, "github:7"), budget)

        yield start


@pytest.fixture
def run_brief() -> RunBrief:
    return RunBrief(
        run_id=RUN_ID,
        request="Make the parser accept empty input.",
        success_criteria=("parse('') returns []",),
        repository_map="parser.py",
        required_suites=("unit",),
    )


@pytest.fixture
def work_brief(run_brief: RunBrief) -> WorkBrief:
    item = WorkItem(
        id="fix-parser",
        objective="Return [] for empty input.",
        read_only=False,
        write_globs=("parser.py",),
        additional_suite_ids=(),
    )
    return WorkBrief(run=run_brief, round=0, item=item)


@pytest.fixture
def candidate_brief(run_brief: RunBrief) -> CandidateBrief:
    return CandidateBrief(
        run=run_brief,
        round=0,
        bindings=Bindings(
            candidate_id="run12345-0",
            candidate_sha="a" * 40,
            test_report_digest="b" * 64,
            evidence_digest="c" * 64,
        ),
        changed_files=("parser.py",),
        suites=("unit: passed, exit code 0, 3 passed",),
        diff_text="+    return []",
        test_log_text="3 passed",
    )
