"""Released versions of real packages: their own change, judged by their own tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from evals.real import PROJECTS, Project, drive_project


@pytest.mark.real
@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project.name)
async def test_released_change_is_promoted_and_a_missing_hunk_is_not(
    project: Project, tmp_path: Path
) -> None:
    """The newer version's change lands as one commit; with one hunk left out nothing does."""
    results = await drive_project(project, tmp_path)
    whole, partial = results["whole"], results["without_a_hunk"]
    assert (whole.outcome, whole.commits_added) == ("promoted", 1), whole.sentence
    assert whole.candidate_sha == whole.reviewed_sha == whole.tested_sha == whole.base_after
    assert partial.outcome == "failed"
    assert partial.base_after == partial.base_before
