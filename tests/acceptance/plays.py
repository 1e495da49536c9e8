"""Plays for the scripted model: what each agent says, put together from a few words."""

from __future__ import annotations

from typing import Any

from evals.scripted_model import Script

Entry = dict[str, Any]

BINDINGS = {
    name: "${" + name + "}"
    for name in ("candidate_id", "candidate_sha", "test_report_digest", "evidence_digest")
}


def play(*entries: Entry | list[Entry]) -> Script:
    """Return a script of entries, in order."""
    flat = [e for entry in entries for e in (entry if isinstance(entry, list) else [entry])]
    return Script.model_validate({"entries": flat})


def plan(*tasks: Entry, round: int = 0) -> Entry:
    """Return the planner's answer for one round."""
    output = {
        "substantive": len(tasks) > 1,
        "reason": "It is what was asked for.",
        "success_criteria": ["The suite passes."],
        "tasks": list(tasks),
    }
    return {"role": "planner", "round": round, "turns": [{"output": output}]}


def task(name: str, *globs: str) -> Entry:
    """Return a work item; without globs it is read-only."""
    return {
        "id": name,
        "objective": f"Do what {name} says.",
        "read_only": not globs,
        "write_globs": list(globs),
        "additional_suite_ids": [],
    }


def work(name: str, *calls: Entry, round: int = 0, status: str = "completed", **turn: Any) -> Entry:
    """Return a worker that makes some tool calls, one a turn, and says how it went."""
    said = {"status": status, "summary": f"{name} is {status}.", "unresolved_risks": []}
    turns: list[Entry] = [{"calls": [call]} | turn for call in calls]
    return {"role": "worker", "task": name, "round": round, "turns": [*turns, {"output": said}]}


def edit(path: str, old: str, new: str) -> Entry:
    """Return a call that replaces `old` by `new`."""
    return {"tool": "edit_file", "arguments": {"path": path, "old": old, "new": new}}


def write(path: str, content: str) -> Entry:
    """Return a call that writes a file."""
    return {"tool": "write_file", "arguments": {"path": path, "content": content}}


def run(command: str) -> Entry:
    """Return a call that runs a command."""
    return {"tool": "run_command", "arguments": {"command": command, "timeout_seconds": 60}}


def judged(*, passed: bool = True, round: int = 0, **bindings: str) -> list[Entry]:
    """Return reducer, verifier and refuter of one round; `bindings` overrides what they name."""
    bound = BINDINGS | bindings
    summary = bound | {
        "summary": "What was asked for is done.",
        "acceptance_evidence": ["The suite says so."],
        "unresolved_risks": [],
    }
    verdict = bound | {
        "candidate_passed": passed,
        "blocking_issues": [] if passed else ["It does not hold."],
        "evidence": ["The suite says so."],
    }
    return [
        {"role": "reducer", "round": round, "turns": [{"output": summary}]},
        {"role": "verifier", "round": round, "turns": [{"output": verdict}]},
        {"role": "refuter", "round": round, "turns": [{"output": verdict}]},
    ]


# --- the demo's repository ----------------------------------------------------------------------

MONEY = edit("shop/money.py", "return int(float(price) * 100)", "return round(float(price) * 100)")
CART = edit(
    "shop/cart.py",
    "return int(cents * (100 - percent) / 100)",
    "return (cents * (100 - percent) + 50) // 100",
)
CART_WRONG = edit(
    "shop/cart.py",
    "return int(cents * (100 - percent) / 100)",
    "return round(cents * (100 - percent) / 100)",
)
CART_MENDED = edit(
    "shop/cart.py",
    "return round(cents * (100 - percent) / 100)",
    "return (cents * (100 - percent) + 50) // 100",
)


def good_fix() -> Script:
    """Return the play in which two workers mend both bugs in one round."""
    return play(
        plan(task("prices", "shop/money.py"), task("discounts", "shop/cart.py")),
        work("prices", MONEY),
        work("discounts", CART),
        judged(),
    )


def three_red_rounds() -> Script:
    """Return the play in which nothing that is tried makes the suite pass."""
    rounds: list[Entry] = []
    for number in range(3):
        calls = [CART_WRONG] if number == 0 else []
        rounds.append(plan(task("discounts", "shop/cart.py"), round=number))
        rounds.append(work("discounts", *calls, round=number))
        rounds += judged(passed=False, round=number)
    return play(rounds)
