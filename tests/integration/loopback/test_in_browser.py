"""The pages in a real browser: a person reads, reviews and merges, on a phone, dark and light."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, ViewportSize, async_playwright, expect

from evals.loopback import LoopbackGitHub
from evals.loopback.state import PullRequest

pytestmark = pytest.mark.browser
PHONE: ViewportSize = {"width": 360, "height": 740}
WIDE: ViewportSize = {"width": 1280, "height": 900}
BODY = """## What was asked
Make the sums right. See `sums.py`.

| suite | exit | passed |
|---|---|---|
| unit | 0 | 12 |

<details><summary>Evidence</summary>

`sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef`

</details>
"""


@pytest.fixture(scope="module")
async def chromium() -> AsyncIterator[Browser]:
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("Chromium is not installed")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        await browser.close()


@pytest.fixture
async def pull(github: LoopbackGitHub) -> PullRequest:
    issue = await github.open_issue(as_user="reader", title="Sums are wrong", body="1 + 1 = 0")
    await github.comment(issue, as_user="writer", body="/ultracode fix it")
    fixed = {"sums.py": "def add(a, b):\n    return a + b  # " + "long " * 40 + "\n"}
    await github.push(fixed, as_user=github.app, branch="ultracode/1-abc")
    pull = await github.open_pull(
        as_user=github.app, head="ultracode/1-abc", title="Make the sums right", body=BODY
    )
    run = await github.check(pull.head_sha, "ultracode/suite/unit", "success", as_app=github.app)
    run.title, run.summary = "12 passed", BODY
    await github.check(pull.head_sha, "ultracode/review", "action_required", as_app=github.app)
    return pull


async def test_review_in_the_browser(
    github: LoopbackGitHub, chromium: Browser, pull: PullRequest
) -> None:
    """With labels and buttons alone a reviewer reads the diff, approves and merges."""
    page = await chromium.new_page(viewport=WIDE)
    await page.goto(f"{github.url}/acme/sums")
    await page.get_by_role("link", name="Make the sums right").click()
    await page.get_by_role("link", name="Files").click()
    await expect(page.get_by_text("return a + b")).to_be_visible()
    await page.get_by_label("As", exact=True).first.select_option("second_writer")
    await page.get_by_label("Approve").check()
    await page.get_by_role("button", name="Submit review").click()
    review = page.get_by_role("article", name="Review by rosa")
    await expect(review.get_by_text("approved")).to_be_visible()
    await page.get_by_label("How").select_option("squash")
    await page.get_by_role("button", name="Merge", exact=True).click()
    await expect(page.get_by_text("Merged by rosa")).to_be_visible()
    assert pull.merged_by is github.person("second_writer").account
    await page.close()


async def problems_of(page: Page) -> list[str]:
    """What keeps people out: unlabelled fields, sideways scrolling, jumps between headings."""
    script = """() => {
      const found = [];
      const root = document.documentElement;
      if (root.scrollWidth > root.clientWidth) found.push("scrolls sideways");
      for (const field of document.querySelectorAll("input:not([type=hidden]),select,textarea"))
        if (!field.labels.length) found.push("no label: " + field.outerHTML);
      const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
      for (const id of new Set(ids))
        if (ids.filter((one) => one === id).length > 1) found.push("id twice: " + id);
      let before = 0;
      for (const heading of document.querySelectorAll("h1,h2,h3,h4,h5,h6")) {
        const level = Number(heading.tagName[1]);
        if (level > before + 1) found.push("jumps to " + heading.outerHTML);
        before = level;
      }
      if (document.querySelectorAll("h1").length !== 1) found.push("not one h1");
      return found;
    }"""
    found: list[str] = await page.evaluate(script)
    return found


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_pages_for_everybody(
    github: LoopbackGitHub, chromium: Browser, pull: PullRequest, scheme: Any, tmp_path: Path
) -> None:
    """On a phone, dark or light, every page fits, every field has a label, nothing is loaded."""
    context = await chromium.new_context(viewport=PHONE, color_scheme=scheme)
    page = await context.new_page()
    strange: list[str] = []
    page.on(
        "request",
        lambda sent: None if sent.url.startswith(github.url) else strange.append(sent.url),
    )
    page.on("console", lambda said: strange.append(said.text))
    run = github.repository().check_runs()[0]
    here = f"/acme/sums/pull/{pull.number}"
    for path in (
        "/_loopback",
        "/acme/sums",
        "/acme/sums/issues/1",
        here,
        f"{here}/files",
        f"{here}/checks",
        f"/acme/sums/runs/{run.id}",
        f"/acme/sums/commit/{pull.head_sha}",
    ):
        await page.goto(github.url + path)
        name = f"{scheme}{path.replace('/', '-')}.png"
        await page.screenshot(path=tmp_path / name, full_page=True)
        assert await problems_of(page) == [], path
    assert [one for one in strange if "favicon" not in one] == []
    await context.close()
