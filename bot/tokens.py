"""Tokens for Git: minted for one repository at the moment of use. In: a repository. Out: a token.

The workshop asks by repository id alone; which installation covers it is remembered from the run
that is being worked on.
"""

from __future__ import annotations

from pydantic import SecretStr

from bot.github.port import GitHubApp
from workspace.contracts import RepoRef


class InstallationCredentials:
    """`workspace.contracts.Credentials` over this App's installations."""

    def __init__(self, github: GitHubApp) -> None:
        self._github = github
        self._installations: dict[int, int] = {}

    def covers(self, repository_id: int, installation_id: int) -> None:
        """Remember which installation covers a repository."""
        self._installations[repository_id] = installation_id

    async def token(self, repo: RepoRef, *, write: bool) -> SecretStr | None:
        """Return a token for one repository, contents only. Raises AccessLost."""
        return await self._github.token(repo.id, self._installations[repo.id], write=write)
