"""The page of a run: for its repository's readers, live, harmless, and with bytes to take away."""

from __future__ import annotations

import asyncio
from pathlib import Path

from bot.pages.routes import LOOK_SECONDS
from bot.store.runs import RunStore
from bot.store.tables import RunState
from tests.integration.pages.conftest import LOG, Site, hrefs, opened_site


async def test_what_may_not_be_read_looks_like_what_is_not_there(site: Site) -> None:
    """A stranger to a private repository, an operator too, gets the answer for an unknown run."""
    known, unknown = f"/runs/{site.run.run_id}", "/runs/0123456789abcdef"
    browser = await site.signed_in("outsider")
    for rest in ("", "/events", f"/artifacts/{site.artifact.sha256}"):
        refused, missing = await browser.get(known + rest), await browser.get(unknown + rest)
        assert refused.status_code == missing.status_code == 404
        assert refused.content == missing.content
        assert dict(refused.headers) == dict(missing.headers)


async def test_the_page_says_when_it_changes(site: Site) -> None:
    """A reader who has the page open is told of every step, and of the first state at once."""
    browser = await site.signed_in("reader")
    page = f"/runs/{site.run.run_id}"
    assert f'data-live="{page}/events"' in (await browser.get(page)).text
    pages = site.pages
    before = await pages.version(site.run.run_id)
    moved = await RunStore(site.database).transition(
        site.run.run_id,
        from_states={RunState.AWAITING_REVIEW},
        to_state=RunState.REJECTED,
    )
    assert moved
    assert await pages.version(site.run.run_id) != before
    ended = (await browser.get(page)).text
    assert "data-live" not in ended


async def test_a_step_is_an_event_and_the_stream_ends_with_the_server(site: Site) -> None:
    """Whoever follows a run hears of its state and of each step, and never holds up a stop."""
    browser = await site.signed_in("reader")
    following = asyncio.create_task(browser.get(f"/runs/{site.run.run_id}/events"))
    before = await site.pages.version(site.run.run_id)
    await asyncio.sleep(LOOK_SECONDS)
    await RunStore(site.database).transition(
        site.run.run_id, from_states={RunState.AWAITING_REVIEW}, to_state=RunState.REJECTED
    )
    after = await site.pages.version(site.run.run_id)
    await asyncio.sleep(3 * LOOK_SECONDS)
    site.door.stop()
    heard = await following
    assert heard.headers["content-type"].startswith("text/event-stream")
    told = [line for line in heard.text.splitlines() if line.startswith("data: ")]
    assert told == [f"data: {before}", f"data: {after}"]


async def test_bytes_come_as_an_attachment_by_their_digest(site: Site) -> None:
    """A reader takes a stored file away as text that no browser runs, and nothing by another id."""
    browser = await site.signed_in("reader")
    address = f"/runs/{site.run.run_id}/artifacts/{site.artifact.sha256}"
    assert address in hrefs((await browser.get(f"/runs/{site.run.run_id}")).text)
    taken = await browser.get(address)
    assert taken.content == LOG
    assert taken.headers["content-type"] == "text/plain; charset=utf-8"
    assert taken.headers["content-disposition"].startswith("attachment;")
    assert taken.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in taken.headers["content-security-policy"]
    for wrong in ("0" * 64, site.artifact.sha256.upper(), "..%2f..%2fetc%2fpasswd"):
        missing = await browser.get(f"/runs/{site.run.run_id}/artifacts/{wrong}")
        assert missing.status_code == 404


async def test_hostile_words_stay_words(tmp_path: Path, database_url: str) -> None:
    """A run whose every foreign text is HTML shows it as text, under a policy that runs none."""
    hostile = "</pre><script>alert(1)</script><img src=x onerror=alert(1)>\u202e\"' onclick=x"
    async with opened_site(tmp_path, database_url, hostile) as site:
        browser = await site.signed_in("reader")
        shown = await browser.get(f"/runs/{site.run.run_id}")
        assert shown.status_code == 200
        assert "&lt;script&gt;" in shown.text
        for part in ("<script>", "<img", "\u202e", "javascript:"):
            assert part not in shown.text
        assert shown.headers["content-security-policy"].startswith("default-src 'none'")
        assert all(address.startswith(("/", "#")) for address in hrefs(shown.text))
