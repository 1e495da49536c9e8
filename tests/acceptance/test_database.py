"""PostgreSQL goes away in the middle of a story, and everything still comes out right."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.store.database import libpq_url
from evals.database_faults import DatabaseFaults, How
from evals.facts import gather, settled
from evals.invariants import repeated_questions, violations
from evals.scripted_model import parse_script, running
from evals.stage import ULTRACODE
from tests.acceptance.conftest import Shop
from tests.acceptance.lane import IN_FLIGHT, small_stage
from tests.acceptance.plays import judged, play
from tests.acceptance.test_killed_in_a_story import one_change

THINKS_SECONDS = 3.0


@pytest.mark.matrix
@pytest.mark.parametrize("how", ["fast", "immediate"])
async def test_the_database_restarts_in_a_story(tmp_path: Path, how: How) -> None:
    """Restarted while a round works, and while the approval's delivery is being committed.

    Supervised processes outlast it, what was answered 202 is there, and it is promoted once.
    """
    change = one_change("good\n")
    change[1]["turns"][0]["delay_seconds"] = THINKS_SECONDS
    async with (
        running(parse_script("entries: []")) as model,
        small_stage(tmp_path, ["octo-state/state"], model) as opened,
    ):
        await opened.parts.pop("web").stop()
        serve = (*ULTRACODE, "serve", "--port", str(opened.web_port))
        health = f"http://127.0.0.1:{opened.web_port}/healthz"
        server = await opened.start("server", *serve, ready=health)
        database = DatabaseFaults(tmp_path / "pg", libpq_url(opened.environment["DATABASE_URL"]))
        shop = Shop(opened, model, "octo-state/state")

        shop.play(play(change, judged()))
        issue = await shop.ask()
        await model.until(lambda model: sum("Role: worker" in str(b) for b in model.bodies) > 0)
        await database.restart(how)

        pull = await shop.ready()
        await settled(opened)
        async with database.stuck_commits():
            await shop.reviewer.review(pull["number"])
            await database.committing("insert into deliveries")
            await database.stop(how)
        await database.start()
        assert (await shop.ended(issue))["state"] == "promoted"
        assert await shop.writer.branch("main") == pull["head"]["sha"]

        await settled(opened)
        assert server.process.returncode is None
        assert violations(await gather(opened)) == []
        assert list(repeated_questions(list(model.bodies), allowed=IN_FLIGHT)) == []
