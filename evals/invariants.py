"""What holds after every fault, or the sentences that say what does not.

In: facts of a settled stage (`facts.py`). Out: violations, none when all is well. Each is asserted
from GitHub's side or from the machine's; where a row of ours is used, it is one of two sides of a
comparison. Tests, the crash matrix and the chaos run all ask the same question: `violations`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from evals.facts import Facts

Json = dict[str, Any]

WORK_BRANCH = "refs/heads/ultracode/"
BRANCH_GOES = frozenset({"promoted", "merged_elsewhere", "rejected", "cancelled"})
BUSY = frozenset({"planning", "working"})
DOUBLED = "ultracode/doubled"  # what a check run that could not be deleted is renamed to
_MARK = re.compile(r"<!-- ultracode [0-9a-f]{32} -->")
_HTTP_ACCEPTED = 202


def violations(facts: Facts, *, runs_per_repository: int = 2) -> list[str]:
    """Return every invariant that does not hold, a sentence each.

    Args:
        facts: a settled stage.
        runs_per_repository: the limit that policy sets on runs that work at once.
    """
    found: list[str] = []
    for name, held in facts.github.items():
        rules = (doubled_comments, doubled_pulls, checks, promotions, approvals, branches)
        for rule in rules:
            found += [f"{name}: {sentence}" for sentence in rule(held, facts, name)]
    found += deliveries(facts)
    found += runs(facts, runs_per_repository)
    found += leftovers(facts)
    return found


# --- one repository on GitHub --------------------------------------------------------------------


def doubled_comments(held: Json, facts: Facts, _: str) -> Iterator[str]:
    """Every comment of ours once; one status comment for each run."""
    status = set(facts.status_marks.values())
    for issue in held["issues"]:
        ours = [c["body"] for c in issue["comments"] if c["by"] == facts.bot]
        marks = Counter(mark for body in ours for mark in _MARK.findall(body))
        for mark, times in marks.items():
            if times > 1:
                kind = "the status comment" if mark in status else "a comment"
                yield f"{kind} of #{issue['number']} stands there {times} times"


def doubled_pulls(held: Json, _: Facts, __: str) -> Iterator[str]:
    """At most one pull request for a branch."""
    heads = Counter(pull["head"] for pull in _pulls(held))
    for head, times in heads.items():
        if times > 1:
            yield f"branch {head} has {times} pull requests"


def checks(held: Json, facts: Facts, _: str) -> Iterator[str]:
    """One concluded check run for each round and suite, and none on a commit we did not make."""
    ours = [c for c in held["check_runs"] if c["name"].startswith("ultracode/")]
    counted = Counter((c["head_sha"], c["name"], c["external_id"]) for c in ours)
    for (sha, name, _id), times in counted.items():
        if times > 1 and name != DOUBLED:
            yield f"check run {name} stands {times} times on {sha[:12]}"
    for check in ours:
        if check["status"] != "completed":
            yield f"check run {check['name']} on {check['head_sha'][:12]} is still open"
    made_by_people = {
        commit["sha"] for history in facts.histories.values() for commit in history
        if commit["by"] != facts.bot
    }  # fmt: skip
    for sha in {check["head_sha"] for check in ours} & made_by_people:
        yield f"a check run stands on {sha[:12]}, which is not ours"


def promotions(held: Json, facts: Facts, name: str) -> Iterator[str]:
    """Promoted = reviewed = tested, one commit on its base, once."""
    history = facts.histories[name]
    ours = Counter(commit["sha"] for commit in history if commit["by"] == facts.bot)
    merged = {p["head_sha"]: p for p in _pulls(held) if p["merged"] and p["head"] in _ours(held)}
    proposed = {pull["head_sha"] for pull in _pulls(held)}
    yield from (f"{sha[:12]} was promoted {n} times" for sha, n in ours.items() if n > 1)
    for sha in ours.keys() - proposed:
        yield f"{sha[:12]} is on the base branch, and no pull request was reviewed for it"
    tested = {
        check["head_sha"] for check in held["check_runs"]
        if check["name"].startswith("ultracode/suite/") and check["conclusion"] == "success"
    }  # fmt: skip
    for sha in merged.keys() & ours.keys():  # others were merged by a person as another commit
        if sha not in {r["commit_id"] for r in merged[sha]["reviews"] if r["state"] == "APPROVED"}:
            yield f"{sha[:12]} was promoted, and nobody approved exactly that"
        if sha not in tested:
            yield f"{sha[:12]} was promoted, and no suite passed on exactly that"
    yield from _added(history, ours)


def _added(history: list[Json], ours: Mapping[str, int]) -> Iterator[str]:
    """Each of our commits adds exactly one: its parent was the base's tip before."""
    following = [commit["sha"] for commit in history]
    by_sha = {commit["sha"]: commit for commit in history}
    for sha in ours:
        after = following[following.index(sha) + 1 :]
        if by_sha[sha]["parents"] != after[:1]:
            yield f"the promotion of {sha[:12]} added more than one commit"


def approvals(held: Json, facts: Facts, name: str) -> Iterator[str]:
    """No approval is lost: an open candidate that is approved and not objected to has landed."""
    for issue in held["issues"]:
        pull = issue["pull"]
        if not pull or issue["state"] != "open" or pull["draft"] or pull["head"] not in _ours(held):
            continue
        latest = {r["by"]: r for r in pull["reviews"] if r["state"] != "COMMENTED"}
        states = {r["state"] for r in latest.values()}
        approved = any(
            r["state"] == "APPROVED" and r["commit_id"] == pull["head_sha"] for r in latest.values()
        )
        if approved and "CHANGES_REQUESTED" not in states and not _behind(pull, facts, name):
            yield f"#{issue['number']} is approved at {pull['head_sha'][:12]} and does not land"


def _behind(pull: Json, facts: Facts, name: str) -> bool:
    """Whether the base moved past the candidate: then a fresh one follows."""
    tip = facts.histories[name][0]["sha"]
    return facts.parents[pull["head_sha"]] != [tip]


def branches(held: Json, facts: Facts, _: str) -> Iterator[str]:
    """At most one branch for a run, and none that its end should have taken along."""
    here = [run for run in facts.runs if run["repository_id"] == held["id"]]
    owned = {run["branch"]: run for run in here if run["branch"]}
    for ref in held["refs"]:
        if not ref.startswith(WORK_BRANCH):
            continue
        run = owned.get(ref.removeprefix("refs/heads/"))
        if run is None:
            yield f"branch {ref} belongs to no run"
        elif run["state"] in BRANCH_GOES:
            yield f"branch {ref} outlived its run, which is {run['state']}"


def _pulls(held: Json) -> list[Json]:
    return [issue["pull"] for issue in held["issues"] if issue["pull"]]


def _ours(held: Json) -> frozenset[str]:
    return frozenset(p["head"] for p in _pulls(held) if p["head"].startswith("ultracode/"))


# --- the system ----------------------------------------------------------------------------------


def deliveries(facts: Facts) -> Iterator[str]:
    """Whatever was answered 202 has a row."""
    accepted = {d["guid"] for d in facts.deliveries if d["status_code"] == _HTTP_ACCEPTED}
    for guid in sorted(accepted - facts.received):
        yield f"delivery {guid} was answered 202 and is gone"


def runs(facts: Facts, limit: int) -> Iterator[str]:
    """No write by an old epoch, no more runs at once than allowed, no active run without a job."""
    for write in facts.stale_writes:
        yield f"an old claim wrote {write}"
    for run in facts.jobless:
        yield f"run {run} is active and has no job"
    epochs: dict[str, int] = {}
    for step in facts.steps:
        if step["epoch"] < epochs.get(step["run_id"], 0):
            yield f"run {step['run_id']} was moved to {step['to']} by an old claim"
        epochs[step["run_id"]] = step["epoch"]
    for repository, most in _most_at_once(facts).items():
        if most > limit:
            yield f"{most} runs of repository {repository} worked at once"
    yield from _one_for_each_command(facts)


def _most_at_once(facts: Facts) -> dict[int, int]:
    repository_of = {run["run_id"]: run["repository_id"] for run in facts.runs}
    busy: dict[int, set[str]] = {}
    most: dict[int, int] = {}
    for step in facts.steps:
        repository = repository_of[step["run_id"]]
        now = busy.setdefault(repository, set())
        (now.add if step["to"] in BUSY else now.discard)(step["run_id"])
        most[repository] = max(most.get(repository, 0), len(now))
    return most


def _one_for_each_command(facts: Facts) -> Iterator[str]:
    """Not more runs on an issue than people gave occasions: commands, labels, change requests."""
    for held in facts.github.values():
        for issue in held["issues"]:
            made = [
                run for run in facts.runs
                if (run["repository_id"], run["issue_number"]) == (held["id"], issue["number"])
                and run["trigger_kind"] != "refresh"  # the base moved: nobody needs to ask
            ]  # fmt: skip
            if len(made) > 1 and len(made) > _occasions(issue, held):
                yield f"#{issue['number']} has {len(made)} runs, more than anybody asked for"


def _occasions(issue: Json, held: Json) -> int:
    asked = sum("/ultracode" in c["body"] for c in issue["comments"] if "[bot]" not in c["by"])
    label = 1  # taking it off leaves no trace
    reviews = [r for p in _pulls(held) for r in p["reviews"] if r["state"] == "CHANGES_REQUESTED"]
    return asked + label + len(reviews)


def leftovers(facts: Facts) -> Iterator[str]:
    """No workspace, lease, process or control group that nobody owns."""
    for lease in facts.leases:
        yield f"workspace {lease} is still lent"
    for process in facts.processes:
        yield f"a process is left: {process}"
    for group in facts.groups:
        yield f"something runs in the control group of a dead worker: {group}"


# --- what models and GitHub were asked -----------------------------------------------------------


def repeated_questions(bodies: Iterable[Json], *, allowed: int) -> Iterator[str]:
    """No question is put to the model twice, but those that were in flight when a worker died."""
    seen = Counter(repr(body.get("input")) for body in bodies)
    repeated = sum(times - 1 for times in seen.values())
    if repeated > allowed:
        yield f"{repeated} model calls were repeated, of which {allowed} could be in flight"
