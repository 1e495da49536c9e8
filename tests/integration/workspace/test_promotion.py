"""Moving refs: exactly once, exactly there, and the truth about it in every case."""

import asyncio
from pathlib import Path

import pytest

from tests.integration.workspace.conftest import Origin, make_pin, make_workshop
from tests.integration.workspace.git_server import GitServer
from workspace.contracts import Moved, Pushed, PushRefused, RunPin
from workspace.errors import GitUnreachable, WorkspaceRefusal
from workspace.service import Workshop


async def two_commits(workshop: Workshop, origin: Origin) -> tuple[RunPin, str, str]:
    """A base on main, and a descendant that waits on a branch of its own."""
    base = origin.commit({"a": b"1"})
    following = origin.commit({"a": b"2"})
    origin.git("push", "-q", str(origin.path), f"{following}:refs/heads/waiting")
    origin.git("push", "-q", "--force", str(origin.path), f"{base}:refs/heads/main")
    run = make_pin(origin, base)
    await workshop.prepare(run, ())
    return run, base, following


async def test_a_second_promotion_finds_it_done(workshop: Workshop, origin: Origin) -> None:
    """Promoting again answers as the first time and changes nothing."""
    run, base, following = await two_commits(workshop, origin)
    for _ in range(2):
        assert await workshop.promote(run, following, expected=base) == Pushed(sha=following)
    assert origin.head() == following


async def test_two_workers_promote_at_once(
    workshop: Workshop, origin: Origin, server: GitServer, tmp_path: Path
) -> None:
    """Of two workers on one approval both end well, and the branch moved once."""
    run, base, following = await two_commits(workshop, origin)
    other = make_workshop(server, tmp_path / "elsewhere", tmp_path / "artifacts")
    try:
        answers = await asyncio.gather(
            workshop.promote(run, following, expected=base),
            other.promote(run, following, expected=base),
        )
    finally:
        await other.close()
    assert answers == [Pushed(sha=following)] * 2


async def test_a_moved_base_is_not_overwritten(workshop: Workshop, origin: Origin) -> None:
    """When the base has moved on, the push does not happen and the answer says where it is."""
    run, base, following = await two_commits(workshop, origin)
    origin.git("checkout", "-q", "--detach", base)
    moved = origin.commit({"b": b"3"})
    assert await workshop.promote(run, following, expected=base) == Moved(actual=moved)
    assert origin.head() == moved


async def test_a_rewound_base_does_not_bring_a_removed_commit_back(
    workshop: Workshop, origin: Origin
) -> None:
    """A base that was rewound on purpose stays rewound."""
    first = origin.commit({"a": b"0"})
    run, base, following = await two_commits(workshop, origin)
    origin.git("push", "-q", "--force", str(origin.path), f"{first}:refs/heads/main")
    assert await workshop.promote(run, following, expected=base) == Moved(actual=first)
    assert origin.head() == first


async def test_a_removed_base_is_not_made_anew(workshop: Workshop, origin: Origin) -> None:
    """A base branch that is gone stays gone."""
    run, base, following = await two_commits(workshop, origin)
    origin.git("update-ref", "-d", "refs/heads/main", cwd=origin.path)
    assert await workshop.promote(run, following, expected=base) == Moved(actual=None)


async def test_only_descendants_are_promoted(workshop: Workshop, origin: Origin) -> None:
    """A commit that does not contain the base is refused before anything is sent."""
    run, base, following = await two_commits(workshop, origin)
    answer = await workshop.promote(run, base, expected=following)
    assert isinstance(answer, PushRefused)
    assert "does not descend" in answer.reason
    assert origin.head() == base


async def test_the_servers_own_words_are_passed_on(workshop: Workshop, origin: Origin) -> None:
    """A refusal of the server is told in its words."""
    run, base, following = await two_commits(workshop, origin)
    hook = origin.path / "hooks/pre-receive"
    hook.write_text("#!/bin/sh\necho 'GH006: Protected branch update failed.' >&2\nexit 1\n")
    hook.chmod(0o755)
    answer = await workshop.promote(run, following, expected=base)
    assert isinstance(answer, PushRefused)
    assert "GH006: Protected branch update failed." in answer.reason
    assert "pre-receive hook declined" in answer.reason
    assert origin.head() == base


async def test_an_answer_that_got_lost_is_looked_up(
    workshop: Workshop, origin: Origin, server: GitServer
) -> None:
    """A push that was applied but not answered counts as done."""
    run, base, following = await two_commits(workshop, origin)
    server.fail_next = ["lose"]
    assert await workshop.promote(run, following, expected=base) == Pushed(sha=following)
    assert sum("POST" in request and "receive" in request for request in server.requests) == 1


async def test_a_server_error_is_tried_again(
    workshop: Workshop, origin: Origin, server: GitServer
) -> None:
    """A push that failed without effect is repeated, and gives up in words after a while."""
    run, base, following = await two_commits(workshop, origin)
    server.fail_next = ["500"]
    assert await workshop.promote(run, following, expected=base) == Pushed(sha=following)
    origin.git("push", "-q", "--force", str(origin.path), f"{base}:refs/heads/main")
    server.fail_next = ["500"] * 20
    with pytest.raises(GitUnreachable):
        await workshop.promote(run, following, expected=base)
    assert origin.head() == base


async def test_a_branch_is_made_moved_and_guarded(workshop: Workshop, origin: Origin) -> None:
    """Our branch is made once, moved under a lease, and not moved when somebody pushed to it."""
    run, base, following = await two_commits(workshop, origin)
    branch = "ultracode/1-abc"
    assert await workshop.publish_branch(run, branch, base, expected=None) == Pushed(sha=base)
    assert await workshop.publish_branch(run, branch, base, expected=None) == Pushed(sha=base)
    moved = await workshop.publish_branch(run, branch, following, expected=None)
    assert moved == Moved(actual=base)
    moved = await workshop.publish_branch(run, branch, following, expected=base)
    assert moved == Pushed(sha=following)
    back = await workshop.publish_branch(run, branch, base, expected=following)
    assert back == Pushed(sha=base)


async def test_the_base_is_moved_by_promotion_only(workshop: Workshop, origin: Origin) -> None:
    """Publishing a branch can never touch the base branch."""
    run, base, following = await two_commits(workshop, origin)
    with pytest.raises(WorkspaceRefusal):
        await workshop.publish_branch(run, "main", following, expected=base)


async def test_a_planted_hook_in_the_mirror_does_not_run(
    workshop: Workshop, origin: Origin, tmp_path: Path
) -> None:
    """Hooks in the mirror see neither a push nor a fetch, as none is run."""
    run, base, following = await two_commits(workshop, origin)
    hooks = tmp_path / "data/mirrors" / f"{origin.repo.id}.git" / "hooks"
    hooks.mkdir()
    for name in ("pre-push", "reference-transaction"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/witness\n")
        (hooks / name).chmod(0o755)
    assert await workshop.promote(run, following, expected=base) == Pushed(sha=following)
    later = origin.commit({"c": b"4"})
    await workshop.prepare(make_pin(origin, later, run_id="run00000002"), ())
    assert not (tmp_path / "witness").exists()


async def test_a_name_that_is_none_is_refused(workshop: Workshop, origin: Origin) -> None:
    """A branch name Git does not take is refused before anything is sent."""
    run, base, _ = await two_commits(workshop, origin)
    with pytest.raises(WorkspaceRefusal, match="no name"):
        await workshop.publish_branch(run, "a..b", base, expected=None)


async def test_a_refused_credential_is_told_in_the_servers_words(
    workshop: Workshop, origin: Origin, server: GitServer
) -> None:
    """Where the server says why it does not let us in, these are its words, without the token."""
    run, base, following = await two_commits(workshop, origin)
    server.token = "ghs_topsecret"
    server.deny_pushes = "Permission to acme/shop.git denied to the bearer of ghs_topsecret."
    answer = await workshop.promote(run, following, expected=base)
    assert answer == PushRefused(reason="Permission to acme/shop.git denied to the bearer of ***.")


async def test_a_mirror_damaged_before_a_push_is_rebuilt(
    workshop: Workshop, origin: Origin, tmp_path: Path
) -> None:
    """A push from a damaged mirror works all the same, as the commit waits on a branch."""
    run, base, following = await two_commits(workshop, origin)
    await workshop.tools_at(run, following)
    for pack in (tmp_path / "data/mirrors" / f"{origin.repo.id}.git/objects/pack").iterdir():
        pack.unlink()
    assert await workshop.promote(run, following, expected=base) == Pushed(sha=following)
