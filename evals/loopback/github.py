"""A running loopback GitHub, and what people do on it, as calls a test reads like a story.

In: repositories on disk, and where webhooks go. Out: `LoopbackGitHub`: its address, its people, its
App, and methods such as `comment`, `review`, `merge_pull`. Everything also works over HTTP with
the people's tokens.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import uvicorn

from evals.loopback import housekeeping, installing
from evals.loopback.auth import Actor, mint_installation_token, mint_user_token
from evals.loopback.deliveries import Webhooks
from evals.loopback.limits import Limits
from evals.loopback.people import CAST, Person
from evals.loopback.push_hook import HookServer
from evals.loopback.server import serve
from evals.loopback.state import (
    Account,
    App,
    Installation,
    Json,
    Repository,
)
from evals.loopback.story import Story
from evals.loopback.world import World

PERMISSIONS = {
    "contents": "write",
    "pull_requests": "write",
    "checks": "write",
    "issues": "write",
    "metadata": "read",
    "statuses": "read",
    "members": "read",
    "administration": "read",
}
EVENTS = (
    "issue_comment",
    "issues",
    "pull_request",
    "pull_request_review",
    "pull_request_review_comment",
    "pull_request_review_thread",
    "check_run",
    "check_suite",
    "status",
    "push",
    "repository",
)
OTHER_PERMISSIONS = {**PERMISSIONS, "statuses": "write"}
_GITCONFIG = (
    "[safe]\n\tdirectory = *\n[init]\n\tdefaultBranch = main\n[protocol]\n\tallow = always\n"
)


@dataclass
class LoopbackGitHub(Story):
    """One GitHub that is up; the story methods are in `Story`."""

    folder: Path = Path()
    installation: Installation = field(init=False)
    other_app: App = field(init=False)
    other_installation: Installation = field(init=False)

    @property
    def url(self) -> str:
        """Pages and Git are here; for the REST API see `api_url`."""
        return self.world.url

    @property
    def api_url(self) -> str:
        """What the bot's `GITHUB_API_URL` is set to."""
        return self.world.api_url

    @property
    def private_key_path(self) -> Path:
        """The App's key as a file only its owner can read."""
        return self.folder / "private-key.pem"

    def card(self) -> Json:
        """What another process needs to know, as `python -m evals.loopback --json` prints it."""
        return {
            "url": self.url,
            "api_url": self.api_url,
            "graphql_url": f"{self.url}/{'api/' if self.world.enterprise else ''}graphql",
            "app_id": self.app.id,
            "app_slug": self.app.slug,
            "client_id": self.app.client_id,
            "client_secret": self.app.client_secret,
            "installation_id": self.installation.id,
            "private_key_path": str(self.private_key_path),
            "webhook_secret": self.app.webhook_secret,
            "repositories": [r.full_name for r in self.world.repositories.values()],
            "users": {key: person.card() for key, person in self.people.items()},
            "other_app": {
                "app_id": self.other_app.id,
                "slug": self.other_app.slug,
                "installation_id": self.other_installation.id,
                "token": self.token_of(self.other_app),
            },
        }

    def token_of(self, app: App, *, permissions: dict[str, str] | None = None) -> str:
        """A fresh token of an App's installation, as the App itself would get it."""
        installation = self._installation(app)
        return mint_installation_token(self.world, installation, permissions=permissions).value

    async def add_repository(
        self, full_name: str, source: Path, *, private: bool = False
    ) -> Repository:
        """Another repository, from any on disk, with the same people."""
        owner_login, name = full_name.split("/")
        owner = self.world.account(owner_login) or self._organization(owner_login)
        repository = await housekeeping.make_repository(
            self.world,
            owner,
            name,
            source,
            config=self.folder / "gitconfig",
            hooks=self.folder / "hooks",
        )
        repository.private = private
        for person in self.people.values():
            housekeeping.grant(self.world, repository, person.account, person.role)
        return repository

    def _organization(self, login: str) -> Account:
        owner = Account(id=self.world.next_id(), login=login, type="Organization")
        self.world.accounts[owner.id] = owner
        return owner

    def _people(self) -> None:
        for key, login, name, role in CAST:
            account = Account(id=self.world.next_id(), login=login, name=name)
            self.world.accounts[account.id] = account
            token = mint_user_token(self.world, account)
            self.people[key] = Person(key=key, account=account, role=role, token=token.value)

    def _apps(self, owner: Account, webhook_url: str | None) -> None:
        by = self.people["admin"].account
        self.app = installing.register_app(
            self.world,
            owner,
            name="Ultracode",
            permissions=PERMISSIONS,
            events=EVENTS,
        )
        self.set_webhook_url(webhook_url)
        self.other_app = installing.register_app(
            self.world, owner, name="Other CI", permissions=OTHER_PERMISSIONS, events=()
        )
        self.installation = installing.install(
            self.world, self.app, owner, repositories=None, by=by
        )
        self.other_installation = installing.install(
            self.world, self.other_app, owner, repositories=None, by=by
        )
        self.private_key_path.touch(mode=0o600)
        self.private_key_path.write_text(self.app.private_key)


@asynccontextmanager
async def running(
    *,
    repos: Mapping[str, Path] | Sequence[tuple[str, Path]],
    webhook_url: str | None = None,
    port: int = 0,
    enterprise: bool = False,
    private: bool = False,
) -> AsyncIterator[LoopbackGitHub]:
    """A loopback GitHub over copies of these repositories, until the block ends.

    Args:
        repos: `owner/name` and the path of any repository; its HEAD becomes the default branch.
        webhook_url: where the App's webhooks go; `set_webhook_url` changes it later.
        port: TCP port on 127.0.0.1, 0 for any free one.
        enterprise: serve the paths of GitHub Enterprise Server.
        private: whether the repositories can be seen by their people only.
    """
    folder = Path(tempfile.mkdtemp(prefix="loopback-"))
    listener = socket.create_server(("127.0.0.1", port))
    webhooks = Webhooks()
    world = World(
        url=f"http://127.0.0.1:{listener.getsockname()[1]}",
        enterprise=enterprise,
        webhooks=webhooks,
    )
    webhooks.world = world
    (folder / "gitconfig").write_text(_GITCONFIG)
    hooks = HookServer(world, folder)
    await hooks.start()
    github = LoopbackGitHub(
        world=world, webhooks=webhooks, hooks=hooks, limits=Limits(world), folder=folder
    )
    github._people()  # noqa: SLF001 - the one place that builds a GitHub
    for full_name, source in dict(repos).items():
        await github.add_repository(full_name, Path(source), private=private)
    first = next(iter(world.repositories.values()))
    github._apps(first.owner, webhook_url)  # noqa: SLF001
    server = _Server(uvicorn.Config(serve(github), log_level="error", lifespan="off"))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield github
    finally:
        server.should_exit = True
        server.force_exit = True
        await serving
        for call in list(server.server_state.tasks):
            call.cancel()
        for task in list(world.pending):
            task.cancel()
        for work in world.held:
            work.close()
        await webhooks.close()
        await hooks.close()
        shutil.rmtree(folder, ignore_errors=True)


class _Server(uvicorn.Server):
    """Leaves signals to whoever runs the loop."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install no handlers."""
        yield


__all__ = ["Actor", "LoopbackGitHub", "running"]
