"""GitHub's refusals of a push, in its own words, with the setting that would change its mind.

The words are those of `git push` against github.com and Enterprise Server; what is not known here
is shown as it came. The sentence is words, not Markdown: whoever shows it escapes it.
"""

from __future__ import annotations

import re
from typing import Final

#: What GitHub says, as a pattern, and what helps; the first that fits counts.
_REMEDIES: Final = {
    r"verified signatures": "turn off “Require signed commits” for this branch",
    r"merge queue": "take this branch out of the merge queue",
    r"not authorized to push|hook declined|Cannot update this protected ref": (
        "let this App push under “Restrict who can push to matching branches”"
    ),
    r"through a pull request|approving review|code owner": (
        "approve the pull request, or let a push of its approved head count under “Require a pull "
        "request before merging”"
    ),
    r"[Rr]equired status check": (
        "let the required checks finish on the candidate, then `/ultracode retry`"
    ),
    r"[Rr]equired deployment|successfully deployed": (
        "turn off “Require deployments to succeed” for this branch"
    ),
    r"workflows`? permission": (
        "the candidate changes a workflow, which this App never may; keep it out of the request"
    ),
    r"Large files|exceeds GitHub's file size": "a file is too large for GitHub; keep it out",
    r"archived": "the repository is archived; unarchive it",
    r"Permission to .+ denied|Write access to repository not granted": (
        "give this App write access to the contents of this repository"
    ),
    r"locked": "turn off “Lock branch”",
    r"GH013|rule violations": "look at this repository's rulesets, and exempt what cannot be met",
    r"GH006|[Pp]rotected branch": "look at this branch's protection",
}
_PREFIX: Final = re.compile(r"^(?:remote:\s*)?(?:error:\s*)?", re.MULTILINE)


def push_refused_sentence(reason: str) -> str:
    """Say why GitHub refused a push, and what to change."""
    said = " ".join(_PREFIX.sub("", reason[:4_000]).split())[:1_000]
    for pattern, remedy in _REMEDIES.items():
        if re.search(pattern, reason):
            return f"GitHub refused the push: {said} What helps: {remedy}."
    return f"GitHub refused the push: {said}"
