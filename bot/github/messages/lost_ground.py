"""Why a run was cancelled: by whom, or what befell its installation, repository or issue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_SENTENCES: Final[Mapping[str, str]] = {
    "installation.deleted": "The App was uninstalled here, so the run could not go on.",
    "installation.suspend": (
        "The App was suspended here, so the run could not go on. Once it is back, "
        "`/ultracode retry` starts it anew."
    ),
    "installation_repositories.removed": (
        "This repository was taken from the App, so the run could not go on. Once it is given "
        "back, `/ultracode retry` starts it anew."
    ),
    "repository.deleted": "The repository was deleted, so the run could not go on.",
    "repository.transferred": (
        "The repository has a new owner, so the run could not go on. Ask again where it is now."
    ),
    "repository.archived": (
        "The repository was archived, so nothing can be merged into it. Once it is not, "
        "`/ultracode retry` starts the run anew."
    ),
    "issues.deleted": "The issue was deleted, so the run could not go on.",
    "issues.transferred": (
        "The issue was moved to another repository, so the run could not go on. Ask again there."
    ),
}


def lost_ground_sentence(event: str, action: str) -> str:
    """Say what befell a run, by GitHub's names of the event and its action."""
    return _SENTENCES[f"{event}.{action}"]


def access_lost_sentence() -> str:
    """Say that the App can no longer see a run's repository, however that came."""
    return (
        "The App can no longer reach this repository, so the run could not go on. Once it can, "
        "`/ultracode retry` starts it anew."
    )


def cancelled_sentence() -> str:
    """Say that a run was stopped, where it is not known by whom."""
    return "It was cancelled."


def cancelled_by_writer_sentence(login: str) -> str:
    """Say who stopped a run on GitHub."""
    return f"{login} cancelled it."


def closed_by_writer_sentence(login: str) -> str:
    """Say who ended a run by closing its pull request."""
    return f"{login} closed the pull request without merging it."


def cancelled_by_operator_sentence() -> str:
    """Say that whoever runs this server stopped a run."""
    return "The operator of this server cancelled it."
