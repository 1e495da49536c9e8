"""What a push, a merge and a REST update of a ref must satisfy, in GitHub's own words."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from evals.loopback import LineComment, LoopbackGitHub, Protection
from evals.loopback.errors import GitHubError
from evals.loopback.state import PullRequest

from .commands import git

FIXED = {"sums.py": "def add(a, b):\n    return a + b\n"}
AsPerson = Callable[[str], httpx.AsyncClient]


class Checkout:
    """A clone somebody pushes from."""

    def __init__(self, github: LoopbackGitHub, folder: Path, token: str) -> None:
        self.url = f"{github.url}/acme/sums.git"
        self.folder = folder
        self.token = token

    async def clone(self) -> "Checkout":
        await git("clone", "-q", self.url, str(self.folder), cwd=self.folder.parent)
        return self

    async def commit(self, path: str, text: str) -> str:
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(text)
        await git("add", "-A", cwd=self.folder)
        await git("commit", "-qm", f"Change {path}", cwd=self.folder)
        return (await git("rev-parse", "HEAD", cwd=self.folder)).strip()

    async def push(self, *spec: str, ok: bool = True) -> str:
        args = ("push", "--porcelain", self.url, *spec)
        return await git(*args, cwd=self.folder, token=self.token, ok=ok)


@pytest.fixture
async def app_checkout(github: LoopbackGitHub, tmp_path: Path) -> Checkout:
    return await Checkout(github, tmp_path / "work", github.token_of(github.app)).clone()


async def proposed(github: LoopbackGitHub, *, by: str = "writer") -> PullRequest:
    await github.push(FIXED, as_user=by, branch="fix")
    return await github.open_pull(as_user=by, head="fix")


def demanding(**rules: Any) -> Protection:
    return Protection(branch="main", **rules)


# --- pushes ---


async def test_strangers_cannot_push(github: LoopbackGitHub, tmp_path: Path) -> None:
    """Without a token, with a reader's, or a made-up one, a push is refused before it begins."""
    reader = github.person("reader").token
    checkout = await Checkout(github, tmp_path / "work", reader).clone()
    await checkout.commit("a.txt", "a")
    assert "Permission to acme/sums.git denied to rene" in await checkout.push("main", ok=False)
    checkout.token = ""
    assert "could not read Username" in await checkout.push("main", ok=False)
    checkout.token = "ghs_made-up"
    assert "could not read Username" in await checkout.push("main", ok=False)


async def test_narrow_token_cannot_push(github: LoopbackGitHub, app_checkout: Checkout) -> None:
    """An installation token with contents to read may fetch and not push."""
    auth = {"contents": "read"}
    app_checkout.token = github.token_of(github.app, permissions=auth)
    await app_checkout.commit("a.txt", "a")
    said = await app_checkout.push("main", ok=False)
    assert "Write access to repository not granted" in said


async def test_private_repositories_hide(github: LoopbackGitHub, tmp_path: Path) -> None:
    """What is private looks absent to those it is not for."""
    github.repository().private = True
    checkout = Checkout(github, tmp_path / "work", github.person("outsider").token)
    args = ("clone", "-q", checkout.url, "work")
    said = await git(*args, cwd=tmp_path, token=checkout.token, ok=False)
    assert "not found" in said
    await git(*args, cwd=tmp_path, token=github.person("reader").token)


async def test_workflows_need_their_own_permission(
    github: LoopbackGitHub, app_checkout: Checkout
) -> None:
    """An App without the workflows permission cannot push a workflow file."""
    await app_checkout.commit(".github/workflows/ci.yml", "on: push\n")
    said = await app_checkout.push("HEAD:refs/heads/new", ok=False)
    assert "refusing to allow a GitHub App to create or update workflow" in said
    assert await github.repository().git.branch("new") is None


async def test_one_refused_ref_leaves_the_other(
    github: LoopbackGitHub, app_checkout: Checkout
) -> None:
    """A push of two branches of which one is protected moves the other."""
    github.protect(demanding(reviews={"required_approving_review_count": 1}))
    sha = await app_checkout.commit("a.txt", "a")
    said = await app_checkout.push("HEAD:refs/heads/main", "HEAD:refs/heads/free", ok=False)
    assert "GH006: Protected branch update failed for refs/heads/main." in said
    assert "[remote rejected] (protected branch hook declined)" in said
    assert await github.tip("free") == sha
    assert await github.tip() != sha


async def test_force_pushes_and_deletions(github: LoopbackGitHub, app_checkout: Checkout) -> None:
    """A protected branch can be neither rewound nor deleted; the default branch never deleted."""
    await github.push({"a": "1"}, as_user="writer", branch="kept")
    github.protect(Protection(branch="kept"))
    said = await app_checkout.push("+HEAD:refs/heads/kept", ok=False)
    assert "Cannot force-push to this protected branch" in said
    assert "Cannot delete this protected branch" in await app_checkout.push(":kept", ok=False)
    assert "refusing to delete the current branch" in await app_checkout.push(":main", ok=False)


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ({"lock_branch": True}, "Cannot change this locked branch"),
        ({"signatures": True}, "Commits must have verified signatures."),
        (
            {"restrictions": {"users": [], "teams": [], "apps": ["other-ci"]}},
            "You're not authorized to push to this branch.",
        ),
        (
            {"status_checks": {"strict": False, "checks": [{"context": "ci", "app_id": None}]}},
            'Required status check "ci" is expected.',
        ),
        (
            {"reviews": {"required_approving_review_count": 1}},
            "Changes must be made through a pull request.",
        ),
    ],
)
async def test_classic_protection(
    github: LoopbackGitHub, app_checkout: Checkout, rules: dict[str, Any], words: str
) -> None:
    """Each demand of a protected branch refuses an unprepared push with its own words."""
    github.protect(demanding(**rules))
    await app_checkout.commit("a.txt", "a")
    assert words in await app_checkout.push("HEAD:main", ok=False)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({"type": "update"}, "Cannot update this protected ref."),
        ({"type": "required_signatures"}, "Commits must have verified signatures."),
        ({"type": "merge_queue"}, "Changes must be made through the merge queue"),
        (
            {
                "type": "pull_request",
                "parameters": {"required_approving_review_count": 0},
            },
            "Changes must be made through a pull request.",
        ),
        (
            {
                "type": "required_status_checks",
                "parameters": {"required_status_checks": [{"context": "ci"}]},
            },
            'Required status check "ci" is expected.',
        ),
        (
            {
                "type": "commit_message_pattern",
                "parameters": {"operator": "regex", "pattern": "^[A-Z]+-\\d+"},
            },
            "Commit message must match: ^[A-Z]+-\\d+",
        ),
        (
            {
                "type": "commit_author_email_pattern",
                "parameters": {"operator": "ends_with", "pattern": "@acme.example"},
            },
            "Author email must match: @acme.example",
        ),
        (
            {"type": "file_path_restriction", "parameters": {"restricted_file_paths": ["a*"]}},
            "File path a.txt is restricted",
        ),
        (
            {
                "type": "required_deployments",
                "parameters": {"required_deployment_environments": ["live"]},
            },
            "Required deployments have not succeeded: live",
        ),
        ({"type": "from_the_future"}, "Rule from_the_future is not satisfied."),
    ],
)
async def test_rulesets(
    github: LoopbackGitHub, app_checkout: Checkout, rule: dict[str, Any], words: str
) -> None:
    """Each rule of a ruleset refuses an unprepared push with its own words."""
    github.add_ruleset([rule])
    await app_checkout.commit("a.txt", "a")
    said = await app_checkout.push("HEAD:main", ok=False)
    assert "GH013: Repository rule violations found for refs/heads/main." in said
    assert words in said
    assert "[remote rejected] (push declined due to repository rule violations)" in said


async def test_approved_green_head_may_be_pushed(
    github: LoopbackGitHub, app_checkout: Checkout
) -> None:
    """Pushing the approved, green head of a pull request satisfies reviews and checks."""
    checks = [{"context": "ci", "app_id": github.other_app.id}]
    github.protect(
        demanding(
            reviews={"required_approving_review_count": 1},
            status_checks={"strict": False, "checks": checks},
        )
    )
    pull = await proposed(github)
    await git("fetch", "-q", app_checkout.url, "fix", cwd=app_checkout.folder)
    target = f"{pull.head_sha}:refs/heads/main"
    await github.check(pull.head_sha, "ci", "success", as_app=github.app)
    assert "is expected" in await app_checkout.push(target, ok=False)
    await github.check(pull.head_sha, "ci", "failure", as_app=github.other_app)
    assert "is failing" in await app_checkout.push(target, ok=False)
    await github.check(pull.head_sha, "ci", "success", as_app=github.other_app)
    assert "approving review is required" in await app_checkout.push(target, ok=False)
    await github.review(pull, as_user="second_writer")
    await app_checkout.push(target)
    assert pull.merged_at is not None


async def test_admin_is_bound_only_where_said(
    github: LoopbackGitHub, app_checkout: Checkout
) -> None:
    """An admin passes classic protection unless it binds admins, too."""
    app_checkout.token = github.person("admin").token
    await app_checkout.commit("a.txt", "a")
    rules = {"reviews": {"required_approving_review_count": 1}}
    github.protect(demanding(enforce_admins=True, **rules))
    assert "through a pull request" in await app_checkout.push("HEAD:main", ok=False)
    github.protect(demanding(**rules))
    await app_checkout.push("HEAD:main")


async def test_rules_of_new_branches(github: LoopbackGitHub, app_checkout: Checkout) -> None:
    """Rules for `ultracode/*` hold when such a branch is made, and stop at the next slash."""
    ruleset = github.add_ruleset([{"type": "creation"}])
    ruleset.conditions = {"ref_name": {"include": ["refs/heads/ultracode/*"], "exclude": []}}
    await app_checkout.commit("a.txt", "a")
    said = await app_checkout.push("HEAD:refs/heads/ultracode/1-abc", ok=False)
    assert "Cannot create ref due to creations being restricted." in said
    await app_checkout.push("HEAD:refs/heads/ultracode/1/abc")


async def test_who_gets_around_a_ruleset(
    github: LoopbackGitHub, app_checkout: Checkout, as_person: AsPerson
) -> None:
    """An App on the bypass list passes, and everybody reads of themselves whether they do."""
    ruleset = github.add_ruleset([{"type": "update"}])
    ruleset.bypass_actors = [
        {"actor_type": "Integration", "actor_id": github.app.id, "bypass_mode": "always"}
    ]
    where = f"/repos/acme/sums/rulesets/{ruleset.id}"
    writer = (await as_person("writer").get(where)).json()
    assert writer["current_user_can_bypass"] == "never"
    headers = {"Authorization": f"Bearer {github.token_of(github.app)}"}
    app = (await as_person("writer").get(where, headers=headers)).json()
    assert app["current_user_can_bypass"] == "always"
    await app_checkout.commit("a.txt", "a")
    await app_checkout.push("HEAD:main")


async def test_plans_without_protection(github: LoopbackGitHub, as_person: AsPerson) -> None:
    """Where the plan has no protection, asking for it is refused with what to buy."""
    github.repository().rules_in_plan = False
    for path in ("branches/main/protection", "rules/branches/main"):
        answer = await as_person("admin").get(f"/repos/acme/sums/{path}")
        assert answer.status_code == 403
        assert answer.json()["message"].startswith("Upgrade to GitHub Pro")


# --- REST ---


async def test_rest_refs_move_forwards_only(github: LoopbackGitHub, as_person: AsPerson) -> None:
    """A REST update that is no fast-forward is 422 without force, and has no expected old value."""
    old = await github.tip()
    new = await github.push(FIXED, as_user="writer", branch="fix")
    client = as_person("writer")
    ahead = await client.patch("/repos/acme/sums/git/refs/heads/main", json={"sha": new})
    assert ahead.status_code == 200
    back = await client.patch("/repos/acme/sums/git/refs/heads/main", json={"sha": old})
    assert (back.status_code, back.json()["message"]) == (422, "Update is not a fast forward")
    unknown = await client.patch("/repos/acme/sums/git/refs/heads/main", json={"sha": "0" * 40})
    assert unknown.status_code == 422
    github.protect(demanding(lock_branch=True))
    newer = await github.push({"b": "2"}, as_user="writer", branch="more")
    locked = await client.patch("/repos/acme/sums/git/refs/heads/main", json={"sha": newer})
    assert "locked branch" in locked.json()["message"]


async def test_protection_over_rest(github: LoopbackGitHub, as_person: AsPerson) -> None:
    """An admin protects a branch over REST, everybody sees it is, and only admins read how."""
    admin, path = as_person("admin"), "/repos/acme/sums/branches/main/protection"
    assert (await admin.get(path)).json()["message"] == "Branch not protected"
    wanted = {
        "required_status_checks": {"strict": True, "contexts": ["ci"]},
        "enforce_admins": True,
        "required_pull_request_reviews": {"required_approving_review_count": 2},
        "restrictions": {"users": ["wim"], "teams": [], "apps": ["ultracode"]},
    }
    assert (await admin.put(path, json={"enforce_admins": True})).status_code == 422
    made = (await admin.put(path, json=wanted)).json()
    assert made["required_status_checks"]["contexts"] == ["ci"]
    assert made["restrictions"]["apps"][0]["slug"] == "ultracode"
    branch = (await as_person("reader").get("/repos/acme/sums/branches/main")).json()
    assert branch["protected"] is True
    assert (await as_person("writer").get(path)).status_code == 404
    assert (await admin.delete(path)).status_code == 204


async def test_rulesets_over_rest(github: LoopbackGitHub, as_person: AsPerson) -> None:
    """A ruleset made over REST holds for the branches it names, and only while it is active."""
    admin = as_person("admin")
    wanted: dict[str, Any] = {
        "name": "main",
        "target": "branch",
        "enforcement": "active",
        "conditions": {"ref_name": {"include": ["refs/heads/ma*"], "exclude": []}},
        "rules": [{"type": "deletion"}, {"type": "required_linear_history"}],
    }
    made = (await admin.post("/repos/acme/sums/rulesets", json=wanted)).json()
    rules = "/repos/acme/sums/rules/branches"
    found = (await admin.get(f"{rules}/main")).json()
    assert [rule["type"] for rule in found] == ["deletion", "required_linear_history"]
    assert (await admin.get(f"{rules}/other")).json() == []
    where = f"/repos/acme/sums/rulesets/{made['id']}"
    await admin.put(where, json={"enforcement": "disabled"})
    assert (await admin.get(f"{rules}/main")).json() == []
    assert (await admin.delete(where)).status_code == 204


# --- merging and reviewing ---


async def test_merge_button_obeys(github: LoopbackGitHub, as_person: AsPerson) -> None:
    """Drafts, moved heads and missing approvals are not merged, each with its own refusal."""
    pull = await proposed(github)
    where, client = f"/repos/acme/sums/pulls/{pull.number}", as_person("second_writer")
    pull.draft = True
    assert (await client.put(f"{where}/merge", json={})).status_code == 405
    pull.draft = False
    moved = await client.put(f"{where}/merge", json={"sha": "0" * 40})
    assert moved.status_code == 409
    github.protect(demanding(reviews={"required_approving_review_count": 1}))
    blocked = await client.put(f"{where}/merge", json={})
    assert (blocked.status_code, "approving review" in blocked.json()["message"]) == (405, True)
    assert (await client.get(where)).json()["mergeable_state"] == "blocked"
    await github.review(pull, as_user="second_writer")
    done = await client.put(f"{where}/merge", json={"merge_method": "squash", "sha": pull.head_sha})
    assert done.json()["merged"] is True
    assert await github.tip() == done.json()["sha"]
    assert (await client.get(f"{where}/merge")).status_code == 204


async def test_rebase_makes_new_commits(github: LoopbackGitHub) -> None:
    """A rebase merge never lands the reviewed commit itself."""
    pull = await proposed(github)
    new = await github.merge_pull(pull, as_user="admin", method="rebase")
    assert new != pull.head_sha
    commits = github.repository().git
    assert (await commits.commit(new)).tree == (await commits.commit(pull.head_sha)).tree


async def test_nobody_approves_their_own(github: LoopbackGitHub) -> None:
    """Neither people nor Apps approve, or request changes on, their own pull request."""
    pull = await proposed(github)
    for event in ("APPROVE", "REQUEST_CHANGES"):
        with pytest.raises(GitHubError, match="Unprocessable"):
            await github.review(pull, as_user="writer", event=event, body="x")
    await github.review(pull, as_user="writer", event="COMMENT", body="mine")
    await github.push({"x": "1"}, as_user=github.app, branch="bot")
    bots = await github.open_pull(as_user=github.app, head="bot")
    with pytest.raises(GitHubError, match="Unprocessable"):
        await github.review(bots, as_user=github.app)


async def test_reviews_know_their_commit(github: LoopbackGitHub) -> None:
    """A review is made at the head or at the commit named, which must exist."""
    pull = await proposed(github)
    first = pull.head_sha
    assert (await github.review(pull, as_user="second_writer")).commit_id == first
    await github.push({"more": "1"}, as_user="writer", branch="fix")
    await github.settle()
    assert pull.head_sha != first
    old = await github.review(pull, as_user="second_writer", commit_id=first)
    assert old.commit_id == first
    with pytest.raises(GitHubError):
        await github.review(pull, as_user="second_writer", commit_id="f" * 40)


async def test_review_decision(github: LoopbackGitHub, as_person: AsPerson) -> None:
    """`reviewDecision` is null without a demand, and then follows the latest decisive reviews."""
    pull = await proposed(github)

    async def decision() -> Any:
        query = (
            'query($n: Int!) { repository(owner: "acme", name: "sums")'
            " { pullRequest(number: $n) { reviewDecision mergeStateStatus } } }"
        )
        body = {"query": query, "variables": {"n": pull.number}}
        answer = (await as_person("reader").post("/graphql", json=body)).json()
        return answer["data"]["repository"]["pullRequest"]["reviewDecision"]

    assert await decision() is None
    github.protect(demanding(reviews={"required_approving_review_count": 1}))
    assert await decision() == "REVIEW_REQUIRED"
    await github.review(pull, as_user="reader")
    assert await decision() == "REVIEW_REQUIRED"
    await github.review(pull, as_user="second_writer", event="REQUEST_CHANGES", body="no")
    assert await decision() == "CHANGES_REQUESTED"
    approval = await github.review(pull, as_user="second_writer")
    assert await decision() == "APPROVED"
    await github.dismiss(approval, as_user="maintainer")
    assert await decision() == "REVIEW_REQUIRED"


async def test_stale_approvals_fall(github: LoopbackGitHub) -> None:
    """Where protection says so, a push dismisses approvals."""
    github.protect(
        demanding(reviews={"required_approving_review_count": 1, "dismiss_stale_reviews": True})
    )
    pull = await proposed(github)
    review = await github.review(pull, as_user="second_writer")
    await github.push({"more": "1"}, as_user="writer", branch="fix")
    await github.settle()
    assert review.state == "DISMISSED"


async def test_code_owners(github: LoopbackGitHub) -> None:
    """Where code owners are demanded, they are asked, and only one of them satisfies the rule."""
    owners = {"CODEOWNERS": "* @mara\n/docs/ @wim\n*.py @acme/core @ada\n"}
    await github.push(owners, as_user="admin")
    github.repository().teams["core"] = {github.person("maintainer").id}
    github.protect(
        demanding(
            reviews={"required_approving_review_count": 1, "require_code_owner_reviews": True}
        )
    )
    pull = await proposed(github)
    assert [account.login for account in pull.requested_reviewers] == ["ada"]
    assert pull.requested_teams == ["core"]
    await github.review(pull, as_user="second_writer")
    with pytest.raises(GitHubError, match="code owner"):
        await github.merge_pull(pull, as_user="second_writer")
    await github.review(pull, as_user="maintainer")
    await github.merge_pull(pull, as_user="second_writer")


async def test_open_conversations_block(github: LoopbackGitHub, as_person: AsPerson) -> None:
    """Where conversations must be resolved, an open thread blocks until GraphQL resolves it."""
    github.protect(demanding(conversation_resolution=True))
    pull = await proposed(github)
    line = LineComment("sums.py", "Sure?", 2)
    await github.review(
        pull, as_user="second_writer", event="COMMENT", body="One thing", comments=[line]
    )
    with pytest.raises(GitHubError, match="All comments must be resolved"):
        await github.merge_pull(pull, as_user="second_writer")
    query = (
        'query($n: Int!) { repository(owner: "acme", name: "sums") { pullRequest(number: $n)'
        " { reviewThreads(first: 10) { nodes { id isResolved } } } } }"
    )
    client = as_person("writer")
    body = {"query": query, "variables": {"n": pull.number}}
    asked = (await client.post("/graphql", json=body)).json()
    [thread] = asked["data"]["repository"]["pullRequest"]["reviewThreads"]["nodes"]
    assert thread["isResolved"] is False
    mutation = (
        "mutation($id: ID!) { resolveReviewThread(input: {threadId: $id})"
        " { thread { isResolved resolvedBy { login } } } }"
    )
    body = {"query": mutation, "variables": {"id": thread["id"]}}
    resolved = (await client.post("/graphql", json=body)).json()
    shown = resolved["data"]["resolveReviewThread"]["thread"]
    assert shown == {"isResolved": True, "resolvedBy": {"login": "wim"}}
    await github.merge_pull(pull, as_user="second_writer")
