"""No way around the ledger: who may call what writes to GitHub, read from the source itself."""

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from itertools import takewhile
from pathlib import Path

import pytest

import bot
from bot.github import port
from bot.github.port import GitHubRepository
from bot.store.effects import EffectKind
from workspace.contracts import WorkspaceService

ROOT = Path(bot.__file__).parent
#: Where effects are made of calls. Each call stands in an `act` or `undo` given to `perform`.
PUBLISHERS = {
    "github/publisher.py",
    "github/run_effects.py",
    "intake/answers.py",
    "tidying.py",
}
DOOR = {"github/client.py", "github/repository.py", "github/door.py"}  # what the port stands for
SENDING = {"send", "mutate"}
PUSHES = {"publish_branch", "promote"}


@cache
def writing_methods() -> set[str]:
    """Return the methods of a repository's door below "what is done", and what pushes."""
    lines = inspect.getsource(GitHubRepository).splitlines()
    reading = list(takewhile(lambda line: "# what is done" not in line, lines))
    assert len(reading) < len(lines), f"{port.__file__} marks what writes"
    tree = ast.parse("\n".join(["class Door:", *lines[len(reading) :]]))
    named = {node.name for node in ast.walk(tree) if isinstance(node, ast.AsyncFunctionDef)}
    assert {"create_comment", "delete_branch", "update_check_run"} <= named
    assert all(hasattr(WorkspaceService, push) for push in PUSHES)
    return named | PUSHES


def outside_calls(tree: ast.AST, inside: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """Yield (method, innermost function) of every call that writes outside."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.AsyncFunctionDef | ast.FunctionDef):
            yield from outside_calls(node, (*inside, node.name))
            continue
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            of = ast.unparse(node.func.value).rpartition(".")[2]
            if node.func.attr in writing_methods() and of in {"repository", "github", "workshop"}:
                yield node.func.attr, inside[-1] if inside else ""
        yield from outside_calls(node, inside)


def sources() -> list[str]:
    return sorted(str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py"))


@pytest.mark.parametrize("source", [s for s in sources() if s not in DOOR])
def test_nothing_writes_outside_but_by_the_ledger(source: str) -> None:
    """What writes to GitHub is called where effects are made, as the act of one, nowhere else."""
    called = list(outside_calls(ast.parse((ROOT / source).read_text())))
    assert source in PUBLISHERS or called == []
    assert {function for _, function in called} <= {"act", "undo"}
    assert source not in PUBLISHERS or called, "a publisher that writes nothing needs no exception"


def test_nobody_else_sends_through_the_door() -> None:
    """GitHub's HTTP door is written through by the client only: others may at most read by it."""
    for source in sources():
        calls = ast.walk(ast.parse((ROOT / source).read_text()))
        sent = [n.attr for n in calls if isinstance(n, ast.Attribute) and n.attr in SENDING]
        assert source in DOOR or sent == [], source


def test_every_kind_of_effect_is_made_somewhere() -> None:
    """No kind of effect, and so no crash point, stands in the list without code that passes it."""
    text = "".join((ROOT / source).read_text() for source in PUBLISHERS)
    assert [kind.name for kind in EffectKind if f"EffectKind.{kind.name}" not in text] == []
