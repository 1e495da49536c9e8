"""Signing in to read evidence: with GitHub, in one browser, once, and back to a page of ours."""

from __future__ import annotations

import base64
import hashlib
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from sqlalchemy import select

from bot.store.tables import browser_sessions
from tests.integration.pages.conftest import Site


async def test_a_reader_signs_in_and_reads_the_run(site: Site) -> None:
    """Sent to GitHub and back, somebody who may read the repository sees what the run did."""
    page = f"/runs/{site.run.run_id}"
    stranger = await site.browser()
    sent = await stranger.get(page)
    assert (sent.status_code, sent.headers["location"]) == (303, f"/auth/login?next={page}")
    browser = await site.signed_in("reader", wanted=page)
    shown = await browser.get(page)
    assert shown.status_code == 200
    for words in ("Login fails for plus addresses", "Accept a plus sign", "src/login.py", "anna"):
        assert words in shown.text
    assert "tests.test_login::test_plus" in shown.text


async def test_pkce_is_asked_for_and_proved(site: Site) -> None:
    """GitHub is given a challenge; a code it gave for another challenge is worth nothing."""
    browser, other = await site.browser(), await site.browser()
    begun = await browser.get("/auth/login")
    asked = parse_qs(urlsplit(begun.headers["location"]).query)
    assert asked["code_challenge_method"] == ["S256"]
    another = (await other.get("/auth/login")).headers["location"]
    stolen = parse_qs(urlsplit(await site.consent(another, "reader")).query)["code"][0]
    refused = await browser.get(
        "/auth/callback", params={"state": asked["state"][0], "code": stolen}
    )
    assert refused.status_code == 400
    assert "ultracode_session" not in browser.cookies
    unrelated = base64.urlsafe_b64encode(hashlib.sha256(b"x").digest()).decode().rstrip("=")
    assert asked["code_challenge"] != [unrelated]


async def test_the_way_back_works_once_and_in_one_browser_only(site: Site) -> None:
    """Another browser, a second use, and a changed state are refused without a session."""
    browser, thief = await site.browser(), await site.browser()
    begun = await browser.get("/auth/login")
    kept = dict(browser.cookies)
    back = await site.consent(begun.headers["location"], "reader")
    assert (await thief.get(back)).status_code == 400
    query = parse_qs(urlsplit(back).query)
    changed = await browser.get(
        "/auth/callback", params={"state": "x" + query["state"][0][1:], "code": query["code"][0]}
    )
    assert changed.status_code == 400
    browser.cookies.set("ultracode_signin", kept["ultracode_signin"], "bot.test", "/auth")
    assert (await browser.get(back)).status_code == 303
    browser.cookies.set("ultracode_signin", kept["ultracode_signin"], "bot.test", "/auth")
    assert (await browser.get(back)).status_code == 400


async def test_a_used_state_is_refused_before_github_is_asked(site: Site) -> None:
    """A second code under a used state signs nobody in, even from the same browser."""
    browser = await site.browser()
    begun = (await browser.get("/auth/login")).headers["location"]
    kept = browser.cookies["ultracode_signin"]
    assert (await browser.get(await site.consent(begun, "reader"))).status_code == 303
    browser.cookies.set("ultracode_signin", kept, "bot.test", "/auth")
    assert (await browser.get(await site.consent(begun, "reader"))).status_code == 400


@pytest.mark.parametrize(
    "wanted",
    ["//evil.example", "https://evil.example", "/\\evil.example", "/auth/logout", "/runs/a\n"],
)
async def test_next_leads_to_pages_of_ours_only(site: Site, wanted: str) -> None:
    """Whoever hands out a sign-in link cannot choose where it ends."""
    browser = await site.browser()
    begun = await browser.get("/auth/login", params={"next": wanted})
    back = await browser.get(await site.consent(begun.headers["location"], "reader"))
    assert back.headers["location"] == "/"


async def test_no_token_is_in_a_url_a_cookie_or_the_database(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """What GitHub gave for a viewer is sealed on the server, and no log line has it."""
    caplog.set_level("DEBUG")
    browser = await site.signed_in("reader")
    await browser.get(f"/runs/{site.run.run_id}")
    tokens = [value for value in site.github.world.tokens if value.startswith("ghu_")]
    assert tokens
    async with site.database.begin() as tx:
        sealed = list((await tx.execute(select(browser_sessions.c.sealed))).scalars())
    kept = [*map(str, browser.cookies.values()), *(bytes(row).decode() for row in sealed)]
    for token in tokens:
        assert token not in caplog.text
        assert not any(token in value for value in kept)


async def test_cookies_are_for_the_server_alone(site: Site) -> None:
    """No script and no other site's form can use a session."""
    browser = await site.browser()
    begun = await browser.get("/auth/login")
    back = await browser.get(await site.consent(begun.headers["location"], "reader"))
    for cookie in (*begun.headers.get_list("set-cookie"), *back.headers.get_list("set-cookie")):
        if "Max-Age=0" not in cookie:
            assert "HttpOnly" in cookie
            assert "SameSite=lax" in cookie


async def test_signing_out_ends_the_session_on_the_server(site: Site) -> None:
    """A kept copy of the cookie opens nothing after signing out; another site cannot sign out."""
    browser = await site.signed_in("reader")
    kept = browser.cookies["ultracode_session"]
    elsewhere = await browser.post("/auth/logout", headers={"sec-fetch-site": "cross-site"})
    assert elsewhere.status_code == 404
    assert (await browser.post("/auth/logout")).status_code == 200
    copy = await site.browser()
    copy.cookies = httpx.Cookies({"ultracode_session": kept})
    assert (await copy.get(f"/runs/{site.run.run_id}")).status_code == 303
