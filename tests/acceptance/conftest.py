"""The stage of the acceptance tests: one for the session, a repository of its own for each test."""

from __future__ import annotations

import base64
import itertools
import json
import secrets
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bot.shown import shown_run
from bot.store.database import Database
from evals.demo import make_repository
from evals.drive import commit_all
from evals.people import Json, Person
from evals.scripted_model import Script, ScriptedModel, parse_script, running
from evals.stage import ULTRACODE, Stage, stage
from evals.story import ENDED, Story
from tests.acceptance.plays import CART, MONEY

REPOSITORIES = 60
GREEN_REPOSITORIES = 12
COMMANDS = itertools.count()


@dataclass
class Shop:
    """One repository on the stage, and the people in it."""

    stage: Stage
    model: ScriptedModel
    repository: str

    def play(self, script: Script) -> None:
        """Let the model say these things from now on."""
        self.model.play(script)

    def person(self, role: str) -> Person:
        """Return somebody by role."""
        return self.stage.person(role, self.repository)

    @property
    def writer(self) -> Person:
        """Return the one who asks."""
        return self.person("writer")

    @property
    def reviewer(self) -> Person:
        """Return a second person with write access."""
        return self.person("second_writer")

    async def ask(self, request: str = "/ultracode Fix the rounding.") -> int:
        """Open an issue, comment on it; return the issue's number."""
        issue = await self.writer.open_issue("Totals are off by a cent", "They are too low.")
        await self.writer.comment(issue, request)
        return issue

    async def words(self, issue: int) -> list[str]:
        """Return what the bot said on an issue, oldest first."""
        return [c["body"] for c in await self.writer.comments(issue) if self.by_bot(c)]

    def by_bot(self, comment: Json) -> bool:
        """Whether the bot wrote a comment."""
        return bool(comment["user"]["type"] == "Bot")

    async def said(self, issue: int, *parts: str, seconds: float = 180) -> str:
        """Wait until the bot said something that holds all of `parts`; return that comment."""

        async def look() -> str | None:
            for text in await self.words(issue):
                if all(part.lower() in text.lower() for part in parts):
                    return text
            return None

        words: str = await self.writer.until(look, seconds=seconds, what=f"words with {parts}")
        return words

    async def ready(self, *, seconds: float = 240) -> Json:
        """Wait for a pull request of the bot that is ready for review; return it."""

        async def look() -> Json | None:
            return next((p for p in await self.writer.pulls() if not p["draft"]), None)

        pull: Json = await self.writer.until(look, seconds=seconds, what="a ready pull request")
        return pull

    async def model_was_asked(self, role: str) -> None:
        """Wait until the model was asked something by an agent of this role."""

        async def look() -> bool:
            return any(asked.role == role for asked in self.model.asked)

        await self.writer.until(look, what=f"a question of the {role}")

    def model_heard(self, role: str) -> str:
        """Return everything the model was told in its last request by an agent of this role."""
        bodies = [json.dumps(body) for body in self.model.bodies]
        return next((text for text in reversed(bodies) if f"Role: {role}" in text), "")

    async def moved_on(self, pull: int, old: str) -> str:
        """Wait until a pull request is ready again at another candidate; return its SHA."""

        async def look() -> str | None:
            found = await self.writer.pull(pull)
            sha = str(found["head"]["sha"])
            return sha if sha != old and not found["draft"] else None

        sha: str = await self.writer.until(look, seconds=240, what="a fresh candidate")
        return sha

    async def shown(self, run_id: str) -> Json:
        """Return a run by its id."""
        async with Database(self.stage.environment["DATABASE_URL"], pool_size=1) as database:
            return await shown_run(database, run_id)

    async def ultracode(self, *words: str) -> tuple[int, str]:
        """Type a command where the server runs; return its exit code and what it printed."""
        name = f"ultracode-{next(COMMANDS)}"
        typed = await self.stage.start(name, *ULTRACODE, *words)
        return await typed.process.wait(), typed.log.read_text()

    async def run_of(self, issue: int) -> Json:
        """Return the newest run of an issue as `ultracode runs` shows it."""
        return await self.story.run_of(issue, self.repository)

    async def ended(self, issue: int) -> Json:
        """Wait for the end of an issue's run; return the run."""
        run = await self.run_of(issue)
        return await self.story.follow(run["run_id"], until=ENDED)

    @property
    def story(self) -> Story:
        """Return somebody who watches runs from the command line."""
        return Story(self.stage)


@pytest.fixture(scope="session")
async def model() -> AsyncIterator[ScriptedModel]:
    """A scripted model whose play each test chooses."""
    async with running(parse_script("entries: []")) as served:
        yield served


@pytest.fixture(scope="session")
async def world(
    model: ScriptedModel, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Stage]:
    """GitHub, database, web and worker, for all tests of the session."""
    folder = tmp_path_factory.mktemp("stage")
    repository = make_repository(folder / "shop")
    green = make_repository(folder / "green")
    mend(green)
    hosted = {f"octo-shop/shop-{number}": repository for number in range(REPOSITORIES)}
    bare = make_repository(folder / "bare")
    (bare / ".github" / "ultracode.yml").unlink()
    commit_all(bare, "Have no policy")
    hosted |= {"octo-shop/bare": bare}
    hosted |= {f"octo-shop/green-{number}": green for number in range(GREEN_REPOSITORIES)}
    provider = {
        "AGENT_MODEL_ID": "gpt-5.4-mini",
        "OPENAI_API_KEY": model.api_key,
        "OPENAI_BASE_URL": model.base_url,
        "ULTRACODE_SIGNING_KEY": base64.b64encode(secrets.token_bytes(32)).decode(),
    }
    async with stage(hosted, Path("unused"), folder=folder, provider=provider) as opened:
        yield opened


@pytest.fixture(scope="session")
def numbers() -> Iterator[int]:
    """The numbers of repositories nobody has used."""
    return itertools.count()


@pytest.fixture(scope="session")
def green_numbers() -> Iterator[int]:
    """The same for green repositories."""
    return itertools.count()


def mend(repository: Path) -> None:
    """Fix both bugs of the demo's repository, so that its suite is green."""
    for call in (MONEY, CART):
        edited = call["arguments"]
        path = repository / edited["path"]
        path.write_text(path.read_text().replace(edited["old"], edited["new"]))
    commit_all(repository, "Round money well")


@pytest.fixture
def green_shop(world: Stage, model: ScriptedModel, green_numbers: Iterator[int]) -> Shop:
    """A repository whose suite is green, and that nobody has touched."""
    return Shop(world, model, f"octo-shop/green-{next(green_numbers)}")


@pytest.fixture
def shop(world: Stage, model: ScriptedModel, numbers: Iterator[int]) -> Shop:
    """A repository nobody has touched."""
    return Shop(world, model, f"octo-shop/shop-{next(numbers)}")


@pytest.fixture
def bare_shop(world: Stage, model: ScriptedModel) -> Shop:
    """A repository without policy."""
    return Shop(world, model, "octo-shop/bare")
