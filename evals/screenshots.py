"""Pictures of a real story for the README: `python -m evals.screenshots [--out docs]`.

In: the demo's repository and script. Out: small PNGs of the loopback's issue, pull request and
checks pages, wide and as on a phone, taken while the candidate waits for its review. Everything but
the model is real; the pages hold what the bot wrote. Needs Chromium.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import Annotated, Final

import typer
from playwright.async_api import Browser, ViewportSize, async_playwright

from evals.demo import BODY, HERE, REPOSITORY, REQUEST, TITLE, make_repository
from evals.drive import approve_at_once, say
from evals.stage import stage
from evals.story import Story, StoryResult

WIDE: Final[ViewportSize] = {"width": 900, "height": 1000}
PHONE: Final[ViewportSize] = {"width": 390, "height": 844}


def main(out: Annotated[Path, typer.Option(help="Where the pictures go.")] = Path("docs")) -> None:
    """Live through the demo's story and take pictures of it before it is approved."""
    out.mkdir(parents=True, exist_ok=True)
    result = asyncio.run(tell(out))
    typer.echo(f"{result.outcome}: pictures in {out}")
    raise typer.Exit(0 if result.outcome == "promoted" else 1)


async def tell(out: Path) -> StoryResult:
    """Live through the story; return how it ended."""

    async def photograph_and_approve(story: Story, pull: int) -> None:
        await photograph(story, pull, out)
        await approve_at_once(story, pull)

    with tempfile.TemporaryDirectory(prefix="ultracode-pictures-") as folder:
        repository = make_repository(Path(folder) / "shop")
        async with stage({REPOSITORY: repository}, (HERE / "script.yaml").resolve()) as world:
            story = Story(world, tell=say)
            return await story.live(TITLE, REQUEST, photograph_and_approve, body=BODY)


async def photograph(story: Story, pull: int, out: Path) -> None:
    """Take every picture. The issue is the first of its repository."""
    pages = {"issue": "issues/1", "pull-request": f"pull/{pull}", "checks": f"pull/{pull}/checks"}
    writer = story.stage.person("writer")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        for name, path in pages.items():
            address = story.page(writer, path)
            await take(browser, address, WIDE, out / f"{name}.png")
            await take(browser, address, PHONE, out / f"{name}-phone.png")
        await browser.close()


async def take(browser: Browser, address: str, size: ViewportSize, path: Path) -> None:
    """Take one picture of what a reader sees first."""
    page = await browser.new_page(viewport=size)
    await page.goto(address)
    await page.screenshot(path=path)
    await page.close()


if __name__ == "__main__":
    typer.run(main)
