"""How records look as JSON, in the REST API and in webhooks.

In: records of `state.py` and facts from Git. Out: dicts in the shapes of GitHub's OpenAPI
description (the tests validate them). Nothing here changes anything or checks permission.
"""

from evals.loopback.shapes.apps import app, installation, installation_token
from evals.loopback.shapes.checks import (
    check_run,
    check_run_event,
    check_suite,
    commit_status,
    short_branch,
)
from evals.loopback.shapes.commits import commit, file_change, git_commit, webhook_commit
from evals.loopback.shapes.issues import comment, issue, label, reaction, reactions
from evals.loopback.shapes.pulls import (
    PullFacts,
    pull,
    pull_event,
    requested_reviewers,
    review,
    review_comment,
    team,
)
from evals.loopback.shapes.repositories import (
    full_repository,
    minimal_repository,
    permissions_of,
    repository,
)
from evals.loopback.shapes.users import ghost, moment, public_user, user, user_or_none

__all__ = [
    "PullFacts",
    "app",
    "check_run",
    "check_run_event",
    "check_suite",
    "comment",
    "commit",
    "commit_status",
    "file_change",
    "full_repository",
    "ghost",
    "git_commit",
    "installation",
    "installation_token",
    "issue",
    "label",
    "minimal_repository",
    "moment",
    "permissions_of",
    "public_user",
    "pull",
    "pull_event",
    "reaction",
    "reactions",
    "repository",
    "requested_reviewers",
    "review",
    "review_comment",
    "short_branch",
    "team",
    "user",
    "user_or_none",
    "webhook_commit",
]
