"""Refs, commits, contents: https://docs.github.com/rest/git and /rest/repos/contents."""

from __future__ import annotations

import base64

from fastapi import APIRouter
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from evals.loopback import protection, pushes, shapes
from evals.loopback.api.call import At, Repo
from evals.loopback.commit_rules import WantedUpdate
from evals.loopback.errors import GitHubError, invalid, not_found
from evals.loopback.git_output import TreeEntry
from evals.loopback.shapes.repositories import api_of, html_of
from evals.loopback.state import Json, node_id

router = APIRouter()
_RAW = "application/vnd.github.raw"
_DIFF = "application/vnd.github.diff"
_INLINE_BYTES = 1_000_000  # larger files come without content
_SYMLINK, _SUBMODULE = "120000", "160000"


# --- refs ---


def _ref(at: At, ref: str, sha: str) -> Json:
    api = api_of(at.world, at.repository)
    return {
        "ref": ref,
        "node_id": node_id("REF", int(sha[:12], 16)),
        "url": f"{api}/git/{ref}",
        "object": {"type": "commit", "sha": sha, "url": f"{api}/git/commits/{sha}"},
    }


@router.get("/repos/{owner}/{name}/git/ref/{ref:path}")
async def get_ref(at: Repo, ref: str) -> Json:
    """One ref, by the part after `refs/`."""
    at.demand("contents", "read")
    sha = await at.repository.git.ref(f"refs/{ref}")
    if sha is None:
        raise not_found()
    return _ref(at, f"refs/{ref}", sha)


@router.get("/repos/{owner}/{name}/git/matching-refs/{ref:path}")
async def matching_refs(at: Repo, ref: str) -> JSONResponse:
    """All refs that begin with that."""
    at.demand("contents", "read")
    every = await at.repository.git.refs()
    found = [(r, sha) for r, sha in every.items() if r.startswith(f"refs/{ref}")]
    return at.paged(found, lambda one: _ref(at, *one))


@router.post("/repos/{owner}/{name}/git/refs", status_code=201)
async def create_ref(at: Repo) -> Json:
    """Make a ref at a commit that exists."""
    at.demand("contents", "write", "write")
    values = await at.values()
    ref, sha = values.text("ref"), values.text("sha")
    if not ref.startswith("refs/") or ref.count("/") < 2:  # noqa: PLR2004 - refs/<kind>/<name>
        raise GitHubError(422, "Reference name must start with 'refs/'")
    if await at.repository.git.resolve(sha) != sha:
        raise GitHubError(422, "Object does not exist")
    await _update(at, ref, None, sha)
    return _ref(at, ref, sha)


@router.patch("/repos/{owner}/{name}/git/refs/{ref:path}")
async def update_ref(at: Repo, ref: str) -> Json:
    """Move a ref; without `force` only forwards. There is no expected old value."""
    at.demand("contents", "write", "write")
    values = await at.values()
    sha, full, git = values.text("sha"), f"refs/{ref}", at.repository.git
    old = await git.ref(full)
    if old is None:
        raise GitHubError(422, "Reference does not exist")
    if await git.resolve(sha) != sha:
        raise GitHubError(422, "Object does not exist")
    if not values.flag("force") and not await git.is_ancestor(old, sha):
        raise GitHubError(422, "Update is not a fast forward")
    await _update(at, full, old, sha)
    return _ref(at, full, sha)


@router.delete("/repos/{owner}/{name}/git/refs/{ref:path}", status_code=204)
async def delete_ref(at: Repo, ref: str) -> Response:
    """Delete a ref."""
    at.demand("contents", "write", "write")
    old = await at.repository.git.ref(f"refs/{ref}")
    if old is None:
        raise GitHubError(422, "Reference does not exist")
    if f"refs/{ref}" == f"refs/heads/{at.repository.default_branch}":
        raise GitHubError(422, "Cannot delete the default branch")
    await _update(at, f"refs/{ref}", old, None)
    return Response(status_code=204)


async def _update(at: At, ref: str, old: str | None, new: str | None) -> None:
    change = pushes.RefChange(ref, old, new)
    if change.branch is not None:
        wanted = WantedUpdate(at.repository, change.branch, old, new)
        objections = await protection.objections_to_update(at.world, at.actor, wanted)
        if objections is not None:
            raise GitHubError(422, " ".join(objections.lines))
    git = at.repository.git
    async with git.writing:
        done = await (git.update_ref(ref, new, old) if new else git.delete_ref(ref, old or ""))
    if not done:
        raise GitHubError(422, "Reference already exists" if old is None else "Reference has moved")
    if old != new:
        await pushes.after_push(at.world, at.repository, at.actor, [change])


# --- commits ---


async def _sha_of(at: At, revision: str) -> str:
    sha = await at.repository.git.resolve(revision)
    if sha is None:
        raise GitHubError(422, f"No commit found for SHA: {revision}")
    return sha


@router.get("/repos/{owner}/{name}/git/commits/{sha}")
async def get_git_commit(at: Repo, sha: str) -> Json:
    """A commit as the Git database has it."""
    at.demand("contents", "read")
    if await at.repository.git.resolve(sha) != sha:
        raise not_found()
    return shapes.git_commit(at.world, at.repository, await at.repository.git.commit(sha))


@router.get("/repos/{owner}/{name}/git/trees/{treeish}")
async def get_tree(at: Repo, treeish: str) -> Json:
    """The entries of a tree; `recursive` in the query for all below."""
    at.demand("contents", "read")
    git = at.repository.git
    sha = await git.text("rev-parse", "--verify", "--end-of-options", f"{treeish}^{{tree}}")
    api = api_of(at.world, at.repository)
    entries = await git.tree(sha, recursive=bool(at.filter("recursive")))
    return {
        "sha": sha,
        "url": f"{api}/git/trees/{sha}",
        "tree": [_tree_entry(api, entry) for entry in entries],
        "truncated": False,
    }


def _tree_entry(api: str, entry: TreeEntry) -> Json:
    kind = {"blob": "blobs", "tree": "trees"}.get(entry.type)
    shape: Json = {"path": entry.path, "mode": entry.mode, "type": entry.type, "sha": entry.sha}
    if entry.size is not None:
        shape["size"] = entry.size
    return {**shape, "url": f"{api}/git/{kind}/{entry.sha}"} if kind else shape


@router.get("/repos/{owner}/{name}/git/blobs/{sha}")
async def get_blob(at: Repo, sha: str) -> Json:
    """The bytes of a file by their id."""
    at.demand("contents", "read")
    data = await at.repository.git.object(sha)
    return {
        "sha": sha,
        "node_id": node_id("B", int(sha[:12], 16)),
        "size": len(data),
        "url": f"{api_of(at.world, at.repository)}/git/blobs/{sha}",
        "content": base64.encodebytes(data).decode(),
        "encoding": "base64",
    }


@router.get("/repos/{owner}/{name}/commits")
async def list_commits(at: Repo) -> JSONResponse:
    """History from a tip backwards."""
    at.demand("contents", "read")
    git = at.repository.git
    tip = await git.resolve(at.filter("sha", at.repository.default_branch))
    if tip is None:
        raise not_found()
    commits = [await git.commit(sha) for sha in await git.history(tip, at.filter("path") or None)]
    return at.paged(commits, lambda commit: shapes.commit(at.world, at.repository, commit))


@router.get("/repos/{owner}/{name}/commits/{sha}/pulls")
async def pulls_of_commit(at: Repo, sha: str) -> JSONResponse:
    """Pull requests that a commit came in with, or is still proposed by."""
    at.demand("pull_requests", "read")
    git, found = at.repository.git, []
    for pull in at.repository.pulls():
        start = await git.merge_base(pull.base_sha, pull.head_sha)
        if sha == pull.merge_commit_sha or sha in await git.between(start, pull.head_sha):
            found.append(pull)
    return at.paged(found, lambda pull: shapes.pull(at.world, pull))


@router.get("/repos/{owner}/{name}/compare/{span:path}")
async def compare(at: Repo, span: str) -> Response:
    """What `head` has that `base` has not: `base...head`."""
    at.demand("contents", "read")
    git = at.repository.git
    base, dots, head = span.partition("...")
    base_sha, head_sha = await git.resolve(base), await git.resolve(head.split(":")[-1])
    if not dots or base_sha is None or head_sha is None:
        raise not_found()
    fork_point = await git.merge_base(base_sha, head_sha)
    if fork_point is None:
        raise GitHubError(404, f"No common ancestor between {base} and {head}.")
    if _DIFF in at.request.headers.get("accept", ""):
        return PlainTextResponse(await git.text("diff", fork_point, head_sha))
    return JSONResponse(await _comparison(at, base_sha, head_sha, fork_point))


async def _comparison(at: At, base: str, head: str, fork_point: str) -> Json:
    git, api = at.repository.git, api_of(at.world, at.repository)
    html = html_of(at.world, at.repository)
    ahead = await git.between(base, head, limit=10_000)
    behind = await git.between(head, base, limit=10_000)
    status = {(False, False): "identical", (True, False): "ahead", (False, True): "behind"}
    shown = [await git.commit(sha) for sha in ahead[:250]]
    files = await git.changes(fork_point, head)
    span = f"{base}...{head}"
    return {
        "url": f"{api}/compare/{span}",
        "html_url": f"{html}/compare/{span}",
        "permalink_url": f"{html}/compare/{span}",
        "diff_url": f"{html}/compare/{span}.diff",
        "patch_url": f"{html}/compare/{span}.patch",
        "base_commit": shapes.commit(at.world, at.repository, await git.commit(base)),
        "merge_base_commit": shapes.commit(at.world, at.repository, await git.commit(fork_point)),
        "status": status.get((bool(ahead), bool(behind)), "diverged"),
        "ahead_by": len(ahead),
        "behind_by": len(behind),
        "total_commits": len(ahead),
        "commits": [shapes.commit(at.world, at.repository, commit) for commit in shown],
        "files": [shapes.file_change(at.world, at.repository, f, head) for f in files],
    }


# --- contents ---


@router.get("/repos/{owner}/{name}/contents")
async def get_root(at: Repo) -> Response:
    """The top folder."""
    return await get_contents(at, "")


@router.get("/repos/{owner}/{name}/contents/{path:path}")
async def get_contents(at: Repo, path: str) -> Response:
    """A file (JSON, or raw by `Accept`), or the entries of a folder."""
    at.demand("contents", "read")
    git, path = at.repository.git, path.strip("/")
    ref = at.filter("ref", at.repository.default_branch)
    commit = await git.resolve(ref)
    if commit is None:
        raise GitHubError(404, f"No commit found for the ref {ref}")
    entry = await git.entry(commit, path) if path else None
    if path and entry is None:
        raise not_found()
    if entry is None or entry.type == "tree":
        entries = await git.tree(f"{commit}:{path}")
        return JSONResponse([_content(at, _below(path, one), ref) for one in entries])
    if _RAW in at.request.headers.get("accept", "") and entry.type == "blob":
        return Response(await git.object(entry.sha), media_type=f"{_RAW}; charset=utf-8")
    return JSONResponse(await _file(at, entry, ref))


def _below(folder: str, entry: TreeEntry) -> TreeEntry:
    path = f"{folder}/{entry.path}" if folder else entry.path
    return TreeEntry(entry.mode, entry.type, entry.sha, entry.size, path)


def _content(at: At, entry: TreeEntry, ref: str) -> Json:
    api, html = api_of(at.world, at.repository), html_of(at.world, at.repository)
    url = f"{api}/contents/{entry.path}?ref={ref}"
    kind, page = ("trees", "tree") if entry.type == "tree" else ("blobs", "blob")
    git_url, html_url = f"{api}/git/{kind}/{entry.sha}", f"{html}/{page}/{ref}/{entry.path}"
    raw = f"{html}/raw/{ref}/{entry.path}" if entry.type == "blob" else None
    return {
        "name": entry.path.rsplit("/", 1)[-1],
        "path": entry.path,
        "sha": entry.sha,
        "size": entry.size or 0,
        "url": url,
        "html_url": html_url,
        "git_url": git_url,
        "download_url": raw,
        "type": _content_type(entry),
        "_links": {"self": url, "git": git_url, "html": html_url},
    }


def _content_type(entry: TreeEntry) -> str:
    if entry.mode == _SYMLINK:
        return "symlink"
    if entry.mode == _SUBMODULE:
        return "submodule"
    return "dir" if entry.type == "tree" else "file"


async def _file(at: At, entry: TreeEntry, ref: str) -> Json:
    shape = _content(at, entry, ref)
    if entry.mode == _SUBMODULE:
        return {**shape, "submodule_git_url": ""}
    data = await at.repository.git.object(entry.sha)
    if entry.mode == _SYMLINK:
        return {**shape, "target": data.decode(errors="replace")}
    if len(data) > _INLINE_BYTES:
        return {**shape, "content": "", "encoding": "none"}
    return {**shape, "content": base64.encodebytes(data).decode(), "encoding": "base64"}


@router.put("/repos/{owner}/{name}/contents/{path:path}")
async def put_contents(at: Repo, path: str) -> JSONResponse:
    """Write one file as one commit on a branch."""
    at.demand("contents", "write", "write")
    values = await at.values()
    branch = values.maybe_text("branch") or at.repository.default_branch
    git = at.repository.git
    old = await git.branch(branch)
    if old is None:
        raise GitHubError(404, f"Branch {branch} not found")
    known = await git.entry(old, path)
    if known is not None and known.sha != values.maybe_text("sha"):
        raise GitHubError(409, f"{path} does not match {values.maybe_text('sha')}")
    try:
        data = base64.b64decode(values.text("content"), validate=False)
    except ValueError as problem:
        raise invalid("content is not valid Base64") from problem
    tree = await git.write_tree(old, {path: data})
    person = pushes.person_of(at.world, at.actor)
    new = await git.write_commit(tree, [old], values.text("message"), person)
    await _update(at, f"refs/heads/{branch}", old, new)
    entry = await git.entry(new, path)
    assert entry is not None
    shown = shapes.git_commit(at.world, at.repository, await git.commit(new))
    body = {"content": _content(at, entry, branch), "commit": shown}
    return JSONResponse(body, 200 if known else 201)


@router.get("/repos/{owner}/{name}/commits/{revision:path}")
async def get_commit(at: Repo, revision: str) -> Response:
    """One commit with its files (SHA or diff by `Accept`). The last route of its kind."""
    at.demand("contents", "read")
    git = at.repository.git
    sha = await _sha_of(at, revision)
    accept = at.request.headers.get("accept", "")
    if "application/vnd.github.sha" in accept:
        return PlainTextResponse(sha)
    commit = await git.commit(sha)
    if _DIFF in accept:
        return PlainTextResponse(await git.text("show", "--format=", sha))
    parent = commit.parents[0] if commit.parents else await git.write_tree(None, {})
    files = await git.changes(parent, sha)
    return JSONResponse(shapes.commit(at.world, at.repository, commit, files))
