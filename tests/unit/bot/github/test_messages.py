# ruff: noqa: E501 - messages stand here as people get them
"""What people read: each message as it stands, and every message with every hostile text."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from inline_snapshot import snapshot

from bot.contracts import Ending, Outcome
from bot.github import messages
from bot.github.messages.status import COMMENT_BYTES
from bot.github.port import Account, Permission, Review
from bot.github.protection import Obstacle, Problem
from bot.policy import PolicyError, PolicyProblem, parse_policy
from bot.policy_proposal import propose_policy
from bot.verdicts import (
    Approved,
    BaseMoved,
    Blocked,
    Discount,
    ForApprovals,
    ForCheck,
    ForGitHubsDecision,
    ForReady,
    ForRetarget,
    ForSettling,
    ForThreads,
    IgnoredApproval,
    Landed,
    MergedElsewhere,
    Paused,
    Rejected,
    Verdict,
    Voided,
    Waiting,
)
from tests.unit.bot.github.corpus import CORPUS
from tests.unit.bot.github.rendered import assert_harmless, assert_plain
from tests.unit.bot.github.views import (
    CANDIDATE,
    STARTED,
    a_suite,
    a_view,
    no_stray_bytes,
    some,
)
from webhooks.command_options import BadOption
from workspace.contracts import TestOutcome

ROSA = Account(id=2, login="rosa")
OUTCOMES: tuple[Outcome, ...] = (
    "promoted",
    "reported",
    "failed",
    "rejected",
    "revised",
    "merged_elsewhere",
    "cancelled",
    "expired",
    "refused",
    "conflicted",
)
STATES = (
    *("accepted", "awaiting_go", "planning", "working", "awaiting_review", "approved"),
    *("promoting", "cancelling", "stale", *OUTCOMES),
)


def a_review(state: Any = "CHANGES_REQUESTED") -> Review:
    return Review(
        id=1,
        author=ROSA,
        state=state,
        commit_id=CANDIDATE,
        submitted_at=STARTED,
        body="",
        html_url="",
    )


def verdicts(text: str) -> Iterator[Verdict]:
    yield Approved(by=(ROSA,), review_ids=(1,))
    waits = (
        ForApprovals(
            needed=2,
            given_by=(ROSA,),
            ignored=tuple(IgnoredApproval(None, why) for why in Discount),
        ),
        ForGitHubsDecision(decision="REVIEW_REQUIRED"),
        ForThreads(count=2),
        ForCheck(context=text, app_id=None, red=False),
        ForCheck(context=text, app_id=None, red=True),
        ForReady(),
        ForRetarget(base=text),
        ForSettling(until=STARTED),
    )
    yield Waiting(waits=waits)
    yield Waiting(waits=waits[3:4], approved=True)
    yield Blocked(by=ROSA, review=a_review(), fresh=True)
    yield Blocked(by=ROSA, review=a_review(), fresh=False)
    yield Rejected(by=ROSA)
    yield Paused(by=None)
    yield Paused(by=ROSA)
    yield MergedElsewhere(by=ROSA, sha=CANDIDATE, same_commit=True, same_tree=True)
    yield MergedElsewhere(by=None, sha=CANDIDATE, same_commit=False, same_tree=True)
    yield MergedElsewhere(by=ROSA, sha=None, same_commit=False, same_tree=False)
    yield Landed(sha=CANDIDATE)
    yield Voided(head=CANDIDATE)
    yield Voided(head=None)
    yield BaseMoved(by=(ROSA,), tip=CANDIDATE)
    yield BaseMoved(by=(ROSA,), tip=None)


def every_message(text: str) -> Iterator[str]:
    """Every message there is, with `text` in each place that foreign words can reach."""
    yield from answers(text)
    yield from of_a_run(text)


def answers(text: str) -> Iterator[str]:
    yield messages.unknown_command_message(text, "cancel")
    for problem in ("unknown", "no_value", "bad_value", "twice", "not_with_command"):
        yield messages.bad_option_message(BadOption(text, problem, "--base", text))
    refused = messages.push_refused_sentence(no_stray_bytes(text) or "")
    yield messages.ending_comment(a_view(), Ending(outcome="failed", sentence=refused))
    yield messages.no_policy_message(text)
    yield messages.base_not_admitted_message(text)
    yield messages.no_such_branch_message(text)
    yield messages.no_such_suite_message([text], ["unit"])
    yield messages.no_required_suite_message(text)
    problems = [Problem(obstacle=o, setting=some(text), source=text) for o in Obstacle]
    yield messages.not_promotable_message(text, problems)
    yield PolicyError(PolicyProblem(3, "unknown key `x`")).sentence
    try:
        parse_policy(b'version: 1\n"' + text.encode("utf-8", "replace")[:900] + b'": 1')
    except PolicyError as error:
        yield error.sentence


def of_a_run(text: str) -> Iterator[str]:
    view = a_view(text)
    yield messages.status_comment(view)
    for reason in ("outsiders_words", "plan", "publish"):
        yield messages.go_wanted_comment(replace(view, reason=reason))
    yield messages.review_wanted_comment(view)
    yield messages.push_refused_comment(view, no_stray_bytes(text) or "")
    yield messages.pull_request_body(view)
    brief = replace(view, rounds=view.rounds[:1])
    for outcome in OUTCOMES:
        ending = Ending(outcome=outcome, sentence=no_stray_bytes(text) or "", sha=CANDIDATE)
        yield messages.ending_comment(view, ending)
        yield messages.gate_check(brief, None, ending=ending).output.summary
    yield messages.status_comment(replace(brief, ending=ending))
    yield from map(messages.verdict_sentence, verdicts(some(text)))
    for check in messages.check_runs(view, view.rounds[0]):
        yield from parts_of(check)


def parts_of(check: Any) -> Iterator[str]:
    yield check.output.summary
    yield check.output.text


@pytest.mark.parametrize("name", [n for n in CORPUS if n not in {"emoji", "persian"}])
def test_no_message_does_what_foreign_words_want(name: str) -> None:
    """In every message only the requester is pinged, only our own links and numbers stand."""
    for text in every_message(CORPUS[name]):
        assert_harmless(
            text,
            mentions=("@anna",),
            references=("#12", "#31"),
            links=("https://bot.example/runs/01hx0abcdefg",),
        )


def test_titles_and_commits_trigger_nothing() -> None:
    """Whatever an issue is called, its title and the commit's subject and lines stay plain."""
    for name, text in CORPUS.items():
        if name in {"emoji", "persian"}:
            continue
        view = a_view(text)
        assert_plain(messages.pull_request_title(view))
        subject, _, rest = messages.commit_message(view.request, view.run_id).partition("\n")
        assert_plain(subject.removesuffix(" (#12)"))
        assert len(subject) <= 68
        trailers = rest.strip().split("\n\n")[-1].splitlines()
        assert trailers == [
            "Ultracode-Run: 01hx0abcdefg",
            "Co-authored-by: anna <7+anna@users.noreply.github.com>",
        ]


def test_the_status_comment() -> None:
    """On top what is awaited from whom until when, then the rounds, then what can be unfolded."""
    assert messages.status_comment(a_view()) == snapshot("""\
👀 **Waiting for a review (awaiting_review)** · #31 · round 2

Waiting for an approving review of #31 at `cccccccccccc` by somebody with write access. Until 10 Nov 2026, 14:00 UTC.

| Round | Candidate | Files | Suites | Verifier | Refuter |
| --- | --- | --- | --- | --- | --- |
| 1 | `ccccccc` | 2 | ❌ unit (2 passed) | ❌ | ❌ |
| 2 | `ccccccc` | 2 | ✅ unit (2 passed) | ✅ | ✅ |

- **unit**, now passing (1): `tests.test_login::test_plus`

asked by `anna` · on `main` at `bbbbbbb` · 12 model calls · 34,567 tokens · cost 0.42 · 3 min 20 s · [evidence](https://bot.example/runs/01hx0abcdefg) · run `01hx0abcdefg`

<details><summary>What was asked</summary>

> Let people with a plus sign in their address log in.

**Success criteria**

- `a+b@c.example` logs in
- suite passes

Suites that must pass: `unit`.

</details>

<details><summary>Round 2</summary>

One place parses addresses.

- **login** (`src/**`): Accept a plus sign

| Suite |  | Outcomes | Exit | Time | Result digest |
| --- | --- | --- | --- | --- | --- |
| unit | ✅ | 2 passed | 0 | 3.2 s | `0123456789abcdef` |

> The address is parsed with its plus sign.

|  |  |
| --- | --- |
| candidate | `cccccccccccccccccccccccccccccccccccccccc` |
| original base | `bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb` |
| diff digest | `0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef` |
| test report digest | `0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef` |
| plan digest | `0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef` |
| policy digest | `0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef` |
| evidence digest | `0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef` |

</details>

<details><summary>Round 1</summary>

One place parses addresses.

- **login** (`src/**`): Accept a plus sign

| Suite |  | Outcomes | Exit | Time | Result digest |
| --- | --- | --- | --- | --- | --- |
| unit | ❌ | 2 passed | 0 | 3.2 s | `0123456789abcdef` |

> The address is parsed with its plus sign.

Verifier objects:

- It still fails for `+`.

Refuter objects:

- It still fails for `+`.

|  |  |
| --- | --- |
| candidate | `cccccccccccccccccccccccccccccccccccccccc` |
| original base | `bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb` |
| diff digest | `0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef` |
| test report digest | `0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef` |
| plan digest | `0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef` |
| policy digest | `0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef` |
| evidence digest | `0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef` |

</details>\
""")


def test_the_pull_request() -> None:
    """Asked, changed and why, evidence, files, how to review; `Closes` from our template."""
    assert messages.pull_request_title(a_view()) == snapshot("Login fails for plus addresses")
    assert messages.pull_request_body(a_view()) == snapshot("""\
Closes #12

### What was asked

> Let people with a plus sign in their address log in.

### What changed and why

> The address is parsed with its plus sign.

### Evidence

| Suite |  | Outcomes | Exit | Time | Result digest |
| --- | --- | --- | --- | --- | --- |
| unit | ✅ | 2 passed | 0 | 3.2 s | `0123456789abcdef` |

- **unit**, now passing (1): `tests.test_login::test_plus`

Verifier ✅ · Refuter ✅

### Files

- `src/login.py` modified
- `uv.lock` added

GitHub folds these in the diff; open them too: `uv.lock`.

### Plan

One place parses addresses.

- **login** (`src/**`): Accept a plus sign

<details><summary>Digests</summary>

|  |  |
| --- | --- |
| candidate | `cccccccccccccccccccccccccccccccccccccccc` |
| original base | `bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb` |
| diff digest | `0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef` |
| test report digest | `0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef` |
| plan digest | `0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef` |
| policy digest | `0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef` |
| evidence digest | `0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef` |

</details>

| Round | Candidate | Files | Suites | Verifier | Refuter |
| --- | --- | --- | --- | --- | --- |
| 1 | `ccccccc` | 2 | ❌ unit (2 passed) | ❌ | ❌ |
| 2 | `ccccccc` | 2 | ✅ unit (2 passed) | ✅ | ✅ |

### How to review

Read the diff; the Checks tab has what ran and the digests. It takes an approving review by somebody with write access: **approving** merges exactly the commit `cccccccccccc` that was tested, **requesting changes** or **closing** stops it. Passing suites are evidence, never proof: code under test runs in the same process as its tests.

<details><summary>Success criteria</summary>

- `a+b@c.example` logs in
- suite passes

</details>

<details><summary>Round 1</summary>

Did not pass: The suite unit failed.

❌ unit (2 passed)

- **login** (`src/**`): Accept a plus sign

|  |  |
| --- | --- |
| candidate | `cccccccccccccccccccccccccccccccccccccccc` |
| original base | `bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb` |
| diff digest | `0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef` |
| test report digest | `0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef` |
| plan digest | `0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef` |
| policy digest | `0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef` |
| evidence digest | `0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef` |

</details>

<sub>Run 01hx0abcdefg · asked by `anna` · [evidence](https://bot.example/runs/01hx0abcdefg)</sub>\
""")
    assert messages.commit_message(a_view().request, "01hx0abcdefg") == snapshot("""\
Login fails for plus addresses (#12)

Let people with a plus sign in their address log in.

Ultracode-Run: 01hx0abcdefg
Co-authored-by: anna <7+anna@users.noreply.github.com>
""")


def test_another_base_closes_nothing() -> None:
    """GitHub closes issues from the default branch only; elsewhere the issue is just named."""
    view = a_view()
    request = view.request.model_copy(update={"base_ref": "refs/heads/release/1.x"})
    assert messages.pull_request_body(replace(view, request=request)).startswith("For #12\n")


def test_check_runs() -> None:
    """Each check says its conclusion and carries every digest in full."""
    view = a_view()
    shown = view.rounds[-1]
    checks = messages.check_runs(view, shown)
    assert [(c.name, c.conclusion, c.output.title) for c in checks] == snapshot(
        [
            ("ultracode/suite/unit", "success", "Passed: 2 passed"),
            ("ultracode/scope", "success", "All changes lie within the plan's paths"),
            ("ultracode/verifier", "success", "Every criterion was checked and met"),
            ("ultracode/refuter", "success", "No counterexample was found"),
        ]
    )
    assert checks[0].output.summary == snapshot("""\
|  |  |
| --- | --- |
| exit | 0 |
| judged by | junit |
| time | 3.2 s |
| result digest | `0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef` |
| run key | `0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef` |
| log SHA-256 | `0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef` |
| JUnit SHA-256 | `0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef` |

- **unit**, now passing (1): `tests.test_login::test_plus`\
""")
    assert checks[0].output.text == snapshot("""\
|  |  |
| --- | --- |
| candidate | `cccccccccccccccccccccccccccccccccccccccc` |
| original base | `bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb` |
| diff digest | `0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef` |
| test report digest | `0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef` |
| plan digest | `0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef` |
| policy digest | `0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef` |
| evidence digest | `0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef` |

<details><summary>Log</summary>

```text
2 passed in 0.1 s
```

</details>\
""")
    for check in (*checks, messages.gate_check(view, None)):
        assert check.external_id == f"01hx0abcdefg:1:{check.name}"
        assert check.head_sha == CANDIDATE
        assert check.output.text.count("0123456789abcdef" * 4) >= 4


def test_failing_tests_are_annotated_in_files_of_the_diff() -> None:
    """Only failing tests whose file is in the diff get an annotation, at most fifty."""
    view = a_view()
    failing = [
        TestOutcome(
            class_name="t",
            name=f"test_{number}",
            outcome="failed",
            message="assert 1 == 2\x1b[0m",
            file="src/login.py" if number % 2 else "elsewhere.py",
            line=number,
        )
        for number in range(120)
    ]
    suite = a_suite(passed=False, exit_code=1, outcomes=tuple(failing), reason="60 tests failed")
    shown = replace(view.rounds[-1], report=None)
    report = view.rounds[-1].report
    assert report is not None
    shown = replace(shown, report=report.model_copy(update={"suites": (suite,)}))
    [check, *_] = messages.check_runs(view, shown)
    assert (check.conclusion, check.output.title) == ("failure", "Did not pass: 120 failed")
    assert len(check.output.annotations) == 50
    first = check.output.annotations[0]
    assert (first.path, first.line, first.level) == ("src/login.py", 1, "failure")
    assert first.message == "assert 1 == 2\\x1b[0m"


@pytest.mark.parametrize(
    ("changes", "conclusion"),
    [
        ({}, "success"),
        ({"passed": False, "exit_code": 1}, "failure"),
        ({"passed": False, "exit_code": None, "termination": "timeout"}, "timed_out"),
        ({"passed": False, "exit_code": 1, "required": False}, "neutral"),
    ],
)
def test_a_suites_conclusion(changes: dict[str, Any], conclusion: str) -> None:
    """An optional suite that fails does not stop anything; a time-out is called so."""
    view = a_view()
    report = view.rounds[-1].report
    assert report is not None
    suites = (a_suite(**changes),)
    shown = replace(view.rounds[-1], report=report.model_copy(update={"suites": suites}))
    assert messages.check_runs(view, shown)[0].conclusion == conclusion


def test_the_gate_in_its_states() -> None:
    """It asks for action while it waits, succeeds when it opens, and ends as the run ends."""
    view = a_view()
    waiting = messages.gate_check(view, None)
    assert (waiting.conclusion, [a.identifier for a in waiting.actions]) == (
        "action_required",
        ["cancel", "rerun_suites", "refresh"],
    )
    assert waiting.output.summary == snapshot("""\
Waiting for an approving review of #31 at `cccccccccccc` by somebody with write access.

Review the pull request itself: that is the only way to decide.\
""")
    approved = messages.gate_check(view, Approved(by=(ROSA,), review_ids=(1,)))
    assert (approved.conclusion, approved.output.title) == ("success", "Approved by rosa")
    ends = {
        outcome: messages.gate_check(
            view, None, ending=Ending(outcome=outcome, sentence="So it ended.")
        )
        for outcome in OUTCOMES
    }
    assert {o: (c.conclusion, c.output.title) for o, c in ends.items()} == snapshot(
        {
            "promoted": ("success", "Merged (promoted)"),
            "reported": ("success", "Done, with nothing to change (reported)"),
            "failed": ("failure", "Failed"),
            "rejected": ("cancelled", "Rejected"),
            "revised": ("neutral", "Followed by a revision (revised)"),
            "merged_elsewhere": ("neutral", "Merged by somebody else (merged_elsewhere)"),
            "cancelled": ("cancelled", "Cancelled"),
            "expired": ("cancelled", "Expired"),
            "refused": ("failure", "Refused"),
            "conflicted": ("failure", "Ended by a conflict with its base (conflicted)"),
        }
    )


def test_verdicts_in_words() -> None:
    """Every verdict of the gate has its sentence."""
    assert [messages.verdict_sentence(verdict) for verdict in verdicts("ci")] == snapshot(
        [
            "Approved by `rosa`.",
            "Waiting for 1 approval, `rosa` approved. The approval by a deleted account does not count: it was given to another commit. The approval by a deleted account does not count: it was given before the candidate was ready. The approval by a deleted account does not count: the account lacks the permission policy asks for. The approval by a deleted account does not count: it is not a person's. The approval by a deleted account does not count: the words of that person are part of the request. Branch protection demands reviews that GitHub does not see yet (it says review required): more approvals, or those of code owners. 2 review threads must be resolved first. Waiting for the required check `ci` to be green. The required check `ci` failed on this commit. If the candidate is at fault, `/ultracode revise <feedback>` makes another; otherwise run it again. Somebody turned the pull request back into a draft; mark it ready for review to go on. Somebody pointed the pull request at `ci`; point it back to go on. GitHub has not caught up with the push yet; looking again at 3 Nov 2026, 14:00 UTC.",
            "Approved. Waiting for the required check `ci` to be green.",
            "`rosa` requested changes. A new approval by `rosa`, or dismissing that review, lifts this.",
            "`rosa` requested changes on an earlier candidate, and that still stands until they review this one or the review is dismissed.",
            "`rosa` closed the pull request without merging it.",
            "The pull request was closed by a deleted account, without write access. Reopen it to go on, or let somebody with write access close it to end the run.",
            "The pull request was closed by `rosa`, without write access. Reopen it to go on, or let somebody with write access close it to end the run.",
            "`rosa` merged the pull request as `cccccccccccc`: exactly the candidate.",
            "A deleted account merged the pull request as `cccccccccccc`: another commit with exactly the candidate's files.",
            "`rosa` merged the pull request as nothing: **not** the files that were tested.",
            "The base branch already stands at `cccccccccccc`.",
            "Somebody changed the branch: it holds `cccccccccccc` now, which nobody tested. This candidate cannot be merged; `/ultracode refresh` builds it anew from the run's own records.",
            "Somebody changed the branch: it is gone now, which nobody tested. This candidate cannot be merged; `/ultracode refresh` builds it anew from the run's own records.",
            "Approved by `rosa`, but the base branch stands at `cccccccccccc` now, so what was tested is not what would be merged.",
            "Approved by `rosa`, but the base branch is gone, so what was tested is not what would be merged.",
        ]
    )


def test_endings() -> None:
    """Every end is told to the requester with what can be done now."""
    view = a_view()
    told = {
        outcome: messages.ending_comment(
            view, Ending(outcome=outcome, sentence="So it ended.", sha=CANDIDATE)
        )
        for outcome in OUTCOMES
    }
    assert told == snapshot(
        {
            "promoted": """\
@anna **promoted**: merged. So it ended.

`main` is at `cccccccccccc`: the very commit that was tested and approved.\
""",
            "reported": "@anna **reported**: done: there was nothing to change. So it ended.",
            "failed": """\
@anna **failed**: this run failed, and nothing was merged. So it ended.

#31 and its branch are kept for a while, for whoever wants to take over. `/ultracode revise <feedback>` goes on from this candidate, `/ultracode retry` starts anew with the same words.\
""",
            "rejected": """\
@anna **rejected**: this run was rejected, and nothing was merged. So it ended.

`/ultracode retry` starts anew with the same words.\
""",
            "revised": "@anna **revised**: a revision of this run has begun. So it ended.",
            "merged_elsewhere": "@anna **merged_elsewhere**: this run's pull request was merged, but not by this run. So it ended.",
            "cancelled": """\
@anna **cancelled**: this run was cancelled, and nothing was merged. So it ended.

`/ultracode retry` starts anew with the same words.\
""",
            "expired": """\
@anna **expired**: nobody decided in time, so this run has expired. So it ended.

#31 and its branch are kept for a while, for whoever wants to take over. `/ultracode revise <feedback>` goes on from this candidate, `/ultracode retry` starts anew with the same words.\
""",
            "refused": """\
@anna **refused**: this run was refused. So it ended.

`/ultracode retry` starts anew with the same words.\
""",
            "conflicted": """\
@anna **conflicted**: the base branch moved, and the candidate does not fit onto it any more. So it ended.

`/ultracode retry` starts anew with the same words.\
""",
        }
    )


def test_headlines() -> None:
    """The first two lines of the status comment in every state."""
    view = replace(a_view(), rounds=(), deadline_at=None)
    heads = {
        state: messages.status_comment(replace(view, state=state)).split("\n\n")[:2]
        for state in STATES[:9]
    }
    assert heads == snapshot(
        {
            "accepted": [
                "⏳ **Accepted** · #31",
                "asked by `anna` · on `main` at `bbbbbbb` · 12 model calls · 34,567 tokens · cost 0.42 · 3 min 20 s · [evidence](https://bot.example/runs/01hx0abcdefg) · run `01hx0abcdefg`",
            ],
            "awaiting_go": [
                "✋ **Waiting for a go (awaiting_go)** · #31",
                "Waiting for `/ultracode go` by somebody with write access: somebody must let it go on.",
            ],
            "planning": [
                "⏳ **Planning** · #31",
                "asked by `anna` · on `main` at `bbbbbbb` · 12 model calls · 34,567 tokens · cost 0.42 · 3 min 20 s · [evidence](https://bot.example/runs/01hx0abcdefg) · run `01hx0abcdefg`",
            ],
            "working": [
                "⏳ **Working** · #31",
                "asked by `anna` · on `main` at `bbbbbbb` · 12 model calls · 34,567 tokens · cost 0.42 · 3 min 20 s · [evidence](https://bot.example/runs/01hx0abcdefg) · run `01hx0abcdefg`",
            ],
            "awaiting_review": [
                "👀 **Waiting for a review (awaiting_review)** · #31",
                "Waiting for an approving review of #31 by somebody with write access.",
            ],
            "approved": [
                "⏳ **Approved** · #31",
                "asked by `anna` · on `main` at `bbbbbbb` · 12 model calls · 34,567 tokens · cost 0.42 · 3 min 20 s · [evidence](https://bot.example/runs/01hx0abcdefg) · run `01hx0abcdefg`",
            ],
            "promoting": [
                "⏳ **Merging (promoting)** · #31",
                "asked by `anna` · on `main` at `bbbbbbb` · 12 model calls · 34,567 tokens · cost 0.42 · 3 min 20 s · [evidence](https://bot.example/runs/01hx0abcdefg) · run `01hx0abcdefg`",
            ],
            "cancelling": [
                "⏳ **Being cancelled (cancelling)** · #31",
                "asked by `anna` · on `main` at `bbbbbbb` · 12 model calls · 34,567 tokens · cost 0.42 · 3 min 20 s · [evidence](https://bot.example/runs/01hx0abcdefg) · run `01hx0abcdefg`",
            ],
            "stale": [
                "⏳ **Being built anew on the moved base (stale)** · #31",
                "asked by `anna` · on `main` at `bbbbbbb` · 12 model calls · 34,567 tokens · cost 0.42 · 3 min 20 s · [evidence](https://bot.example/runs/01hx0abcdefg) · run `01hx0abcdefg`",
            ],
        }
    )


def test_questions_to_people() -> None:
    """A new comment mentions the requester once and says what each answer does."""
    view = a_view()
    assert messages.review_wanted_comment(view) == snapshot(
        "@anna the candidate passed its suites, the verifier and the refuter. #31 at `cccccccccccc` waits for an approving review by somebody with write access, until 10 Nov 2026, 14:00 UTC. Approving it merges exactly that commit."
    )
    assert messages.go_wanted_comment(replace(view, reason="outsiders_words")) == snapshot("""\
@anna the words below were written or changed by somebody without write access. If they are what you want done, `/ultracode go` lets the run use exactly these; `/ultracode cancel` stops it. Later edits of the issue change nothing.

```text
Let people with a plus sign in their address log in.
```

Success criteria:

```text
`a+b@c.example` logs in
suite passes
```\
""")
    assert messages.go_wanted_comment(replace(view, reason="plan")) == snapshot("""\
@anna this is the plan. `/ultracode go` starts the work; `/ultracode cancel` stops the run.

One place parses addresses.

- **login** (`src/**`): Accept a plus sign

Suites that will judge it: `unit`.

Success criteria:

- `a+b@c.example` logs in
- suite passes\
""")
    assert messages.go_wanted_comment(replace(view, reason="publish")) == snapshot(
        """\
@anna a candidate is ready (`cccccccccccc`) and has not been pushed: pushing it starts this repository's own workflows on code nobody has read. `/ultracode go` pushes it; `/ultracode cancel` stops the run.

| Suite |  | Outcomes | Exit | Time | Result digest |
| --- | --- | --- | --- | --- | --- |
| unit | ✅ | 2 passed | 0 | 3.2 s | `0123456789abcdef` |

Files changed:

- `src/login.py`
- `uv.lock`

|  |  |
| --- | --- |
| candidate | `cccccccccccccccccccccccccccccccccccccccc` |
| original base | `bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb` |
| diff digest | `0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef` |
| test report digest | `0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef` |
| plan digest | `0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef` |
| policy digest | `0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef` |
| evidence digest | `0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef` |\
"""
    )


def test_refusals() -> None:
    """Each refusal says why, and what to do."""
    assert messages.no_write_message() == snapshot(
        "Only people with write access to this repository can steer runs here. Somebody who has it can write the same comment."
    )
    assert messages.requester_level_message(Permission.MAINTAIN) == snapshot(
        "This repository's policy lets people with maintain access start runs (`requesters` in `.github/ultracode.yml`)."
    )
    assert messages.no_policy_message(propose_policy(["go.mod"])) == snapshot("""\
This repository has no `.github/ultracode.yml` on its default branch, so the bot does not know which tests a change must pass. Commit this file there, corrected where it guesses wrong, and write the command again:

```yaml
version: 1
suites:
  unit: {run: "go test ./...", required: true}
  vet: {run: "go vet ./...", required: false, paths: ["**/*.go"]}
setup: {run: "go mod download", inputs: [go.mod], network: [go]}
review: {approvals: 1, from: write}
```\
""")
    assert messages.base_not_admitted_message("dev") == snapshot(
        "Policy does not admit `dev` as a base branch. Add it to `bases` in `.github/ultracode.yml` on the default branch."
    )
    assert messages.no_required_suite_message("dev") == snapshot(
        "No required suite in `.github/ultracode.yml` applies to `dev`, so a change to it could not be judged. Add one, or widen the `bases` of one."
    )
    assert messages.no_such_suite_message(["unti"], ["unit", "lint"]) == snapshot(
        "Policy has no suite `unti` for this branch. It has `unit`, `lint`. Nothing was started."
    )
    assert messages.unknown_command_message("cancle", "cancel") == snapshot(
        "`cancle` is no command. Did you mean `/ultracode cancel`? Nothing was started."
    )
    assert messages.bad_option_message(BadOption("--bsae", did_you_mean="--base")) == snapshot(
        "`--bsae` is no option. Did you mean `--base`? The options are `--base <branch>` and `--suite <id>`, right after `/ultracode`. Nothing was started."
    )
    assert messages.live_run_message(None) == snapshot(
        "This issue already has a run under way. Its status comment says where it stands; `/ultracode cancel`, alone on its line, stops it. Nothing was started."
    )
    problems = [
        Problem(obstacle=obstacle, setting="A setting", source="acme rules")
        for obstacle in Obstacle
    ]
    assert messages.not_promotable_message("main", problems) == snapshot("""\
This App could not merge anything into `main`, so no work was started. In the way:

- `A setting` (acme rules): commits must be signed, and the bot's are not.
- `A setting` (acme rules): changes must pass through a merge queue, which would make other commits than the one that was reviewed.
- `A setting` (acme rules): the branch is locked.
- `A setting` (acme rules): only some may push, and this App is not among them; add it there.
- `A setting` (acme rules): a deployment must succeed first, which the bot never starts.
- `A setting` (acme rules): the bot's commit does not fit this pattern.
- `A setting` (acme rules): the bot does not know this kind of rule, so it cannot promise to keep it.
- `A setting` (acme rules): this keeps the bot from making or updating its `ultracode/*` branches; exempt them.
- `A setting` (acme rules): this App may get around the protection it should be held by; take it off.\
""")
    with pytest.raises(PolicyError) as caught:
        parse_policy(b"version: 1\nsuites: {u: {run: x, requird: true}}\n")
    assert caught.value.sentence == snapshot("""\
The policy file `.github/ultracode.yml` on the default branch cannot be used:

- line 2: unknown key `suites.u.requird`; did you mean `required`?

Correct it there and write the command again.\
""")


def test_everything_fits() -> None:
    """A run that is too large for GitHub is cut by whole parts, and the digests stay."""
    long = "word " * 1_500
    view = a_view(long)
    many = tuple(
        TestOutcome(class_name="t", name=f"test_{n}", outcome="failed", message="é" * 2_000)
        for n in range(3_000)
    )
    report = view.rounds[-1].report
    assert report is not None
    suites = tuple(a_suite(suite_id=f"suite-{n}", passed=False, outcomes=many) for n in range(5))
    shown = replace(view.rounds[-1], report=report.model_copy(update={"suites": suites}))
    view = replace(view, rounds=(shown, shown, shown))
    for text in (messages.status_comment(view), messages.pull_request_body(view)):
        assert len(text.encode()) <= COMMENT_BYTES
    for check in messages.check_runs(view, shown):
        assert len(check.output.summary.encode()) <= 65_535
        assert len(check.output.text.encode()) <= 65_535
        assert "0123456789abcdef" * 4 in check.output.text
        assert len(check.actions) <= 3
        for action in check.actions:
            sizes = (len(action.label), len(action.description), len(action.identifier))
            assert all(size <= most for size, most in zip(sizes, (20, 40, 20), strict=True))


@pytest.mark.parametrize(
    ("reason", "helps"),
    [
        ("remote: error: GH006: Protected branch update failed for refs/heads/main.", "protection"),
        (
            "GH013: Repository rule violations found: Commits must have verified signatures.",
            "signed",
        ),
        (
            "GH013: Repository rule violations found: Changes must be made through a pull request.",
            "approved head",
        ),
        ('Required status check "ci" is expected.', "required checks finish"),
        ("Changes must be made through the merge queue", "merge queue"),
        ("You're not authorized to push to this branch.", "Restrict who can push"),
        (
            "refusing to allow a GitHub App to create or update workflow without `workflows` permission",
            "workflow",
        ),
        ("GH001: Large files detected.", "too large"),
        ("This repository was archived so it is read-only.", "unarchive"),
        ("Permission to acme/tool.git denied to ultracode[bot].", "write access"),
    ],
)
def test_refused_pushes_name_the_setting(reason: str, helps: str) -> None:
    """GitHub's own words are shown, and after them what to change."""
    sentence = messages.push_refused_sentence(reason)
    shown, _, remedy = sentence.partition(" What helps: ")
    assert shown.startswith("GitHub refused the push: ")
    assert "remote:" not in shown
    assert helps in remedy


def test_a_refused_push_is_shown_with_how_to_go_on() -> None:
    """Comment and status say that the same candidate waits, and which word pushes it again."""
    view = replace(a_view(), state="awaiting_review", reason="push_refused", verdict=None)
    said = messages.push_refused_comment(view, "GitHub refused the push: It is locked.")
    assert said.startswith("@anna the candidate is approved and nothing was merged.")
    assert "It is locked." in said
    assert "/ultracode retry" in said
    assert "GitHub refused the push" in messages.status_comment(view)


def test_an_unknown_refusal_is_shown_as_it_came() -> None:
    """Nothing is guessed about words nobody knows."""
    said = messages.push_refused_sentence("no such luck, @octo-dev")
    assert said == "GitHub refused the push: no such luck, @octo-dev"


def test_a_changed_build_file_is_named() -> None:
    """Where one file describes product and test run alike, a reader is told that it changed."""
    view = a_view()
    shown = view.rounds[-1]
    assert shown.candidate
    assert "which tests run" not in messages.pull_request_body(view)
    pom = shown.candidate.changed_files[0].model_copy(update={"path": "java/pom.xml"})
    candidate = shown.candidate.model_copy(update={"changed_files": (pom,)})
    view = replace(view, rounds=(*view.rounds[:-1], replace(shown, candidate=candidate)))
    assert (
        "These also say which tests run, and are the candidate's own: `java/pom.xml`."
        in messages.pull_request_body(view)
    )
