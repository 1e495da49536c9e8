"""One worker, one candidate, one promotion, over real HTTP and real Git."""

from tests.integration.workspace.conftest import (
    Origin,
    key,
    make_pin,
    scope,
)
from tests.integration.workspace.git_server import GitServer
from workspace.contracts import Candidate, Pushed
from workspace.service import Workshop


async def test_a_change_becomes_one_commit_on_the_base_branch(
    workshop: Workshop, origin: Origin, server: GitServer
) -> None:
    """What a worker wrote through its tools lands as one commit whose parent is the base."""
    server.token = "ghs_secret"
    base = origin.commit({"src/a.py": b"a = 1\n", "README.md": b"hello\n"})
    run = make_pin(origin, base)
    await workshop.prepare(run, ())
    tools = await workshop.create_worker(run, scope("src/**"), key=key(), parent=base, suites=())
    assert "a = 1" in await tools.read_file("src/a.py")
    assert await tools.edit_file("src/a.py", "a = 1", "a = 2") == "Edited src/a.py."
    record = await workshop.inspect_and_freeze(run, scope("src/**"), key=key(), parent=base)
    assert [file.path for file in record.changed_files] == ["src/a.py"]
    candidate = await workshop.compose(run, [record], round=0, parent=base)
    assert isinstance(candidate, Candidate)
    pushed = await workshop.publish_branch(run, "ultracode/1-run", candidate.sha, expected=None)
    assert pushed == Pushed(sha=candidate.sha)
    assert await workshop.promote(run, candidate.sha, expected=base) == pushed
    assert origin.head() == candidate.sha
    assert origin.tree(candidate.sha)[b"src/a.py"] == ("100644", b"a = 2\n")
    assert origin.git("rev-list", "--parents", "-1", candidate.sha, cwd=origin.path).split() == [
        candidate.sha,
        base,
    ]
