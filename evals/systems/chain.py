"""What must hold of every run of the workflow, whatever a model said.

In: a run and what GitHub shows of it. Out: sentences about what does not hold; none is expected.
Merged = reviewed = tested SHA, one commit, and no outside effect done twice.
"""

from __future__ import annotations

from collections import Counter

from evals.people import Person
from evals.story import StoryResult


async def broken_links(person: Person, result: StoryResult, issue: int) -> tuple[str, ...]:
    """Return what does not hold of a run that has ended."""
    pulls = await person.pulls()
    checks = Counter(check["external_id"] for check in result.check_runs)
    comments = await person.comments(issue)
    wrong = {
        "more than one pull request": len(pulls) > 1,
        "a check run was made twice": max(checks.values(), default=0) > 1,
        "no word of the bot on the issue": not any(c["user"]["type"] == "Bot" for c in comments),
    }
    if result.outcome == "promoted":
        wrong |= promoted_wrongly(result)
    elif result.base_after != result.base_before:
        wrong["the base moved, yet the run was not promoted"] = True
    return tuple(sentence for sentence, holds in wrong.items() if holds)


def promoted_wrongly(result: StoryResult) -> dict[str, bool]:
    """Return what may not be of a promoted run."""
    return {
        "the base is not at the candidate": result.base_after != result.candidate_sha,
        "the candidate was not the reviewed commit": result.candidate_sha != result.reviewed_sha,
        "the candidate was not the tested commit": result.candidate_sha != result.tested_sha,
        "not exactly one commit was added": result.commits_added != 1,
        "there is no digest of the test report": not result.test_report_digest,
        "there is no digest of the evidence": not result.evidence_digest,
    }
