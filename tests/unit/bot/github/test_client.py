import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from pydantic import SecretStr

from bot.github.port import (
    AccessLost,
    GitHubError,
    GitHubRefused,
    GitHubUnavailable,
    Permission,
    RateLimited,
    ReactionTarget,
)
from tests.unit.bot.github.stub import Asked, Reply, stub_server

REPO: dict[str, Any] = {
    "id": 42,
    "owner": {"id": 1, "login": "acme", "type": "Organization"},
    "name": "tool",
    "default_branch": "main",
    "private": False,
    "archived": False,
    "disabled": False,
    "clone_url": "https://host.invalid/acme/tool.git",
    "html_url": "https://host.invalid/acme/tool",
}


@pytest.fixture(scope="session")
def key() -> SecretStr:
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return SecretStr(pem.decode())


class Script:
    """Answers tokens and the repository; everything else by the test's own function."""

    def __init__(self, answer: Callable[[Asked], Reply]) -> None:
        self.answer = answer
        self.minted = 0

    def __call__(self, asked: Asked) -> Reply:
        if asked.path.endswith("/access_tokens"):
            self.minted += 1
            return Reply(201, {"token": f"token-{self.minted}"})
        if "/installation/repositories" in asked.path:
            return Reply(200, {"total_count": 1, "repositories": [REPO]})
        return self.answer(asked)


async def test_a_write_that_fails_is_not_sent_again(key: SecretStr) -> None:
    """A POST answered with 502 is reported as unavailable after one attempt."""
    async with stub_server(Script(lambda _: Reply(502, {}))) as stub:
        repository = stub.client(key).repository(1, 42)
        with pytest.raises(GitHubUnavailable):
            await repository.create_comment(3, "hello")
        assert stub.paths("POST").count("/repos/acme/tool/issues/3/comments") == 1


async def test_a_read_that_fails_is_sent_once_more(key: SecretStr) -> None:
    """A GET answered with 502 is repeated once, and its second answer counts."""
    replies = iter([Reply(502, {}), Reply(200, {"object": {"sha": "c" * 40}})])
    async with stub_server(Script(lambda _: next(replies))) as stub:
        repository = stub.client(key).repository(1, 42)
        assert await repository.branch_sha("main") == "c" * 40


async def test_ten_first_calls_mint_one_token(key: SecretStr) -> None:
    """Callers that come at once share one token, narrowed to the repository and its purpose."""
    script = Script(lambda _: Reply(404, {"message": "Not Found"}))
    async with stub_server(script) as stub:
        repository = stub.client(key).repository(1, 42)
        await asyncio.gather(*(repository.branch_sha(f"b{n}") for n in range(10)))
        [minting] = [a for a in stub.asked if a.path.endswith("/access_tokens")]
        assert minting.path == "/app/installations/1/access_tokens"
        assert minting.body["repository_ids"] == [42]
        assert set(minting.body["permissions"].values()) == {"read"}


async def test_a_write_asks_for_no_more_than_it_needs(key: SecretStr) -> None:
    """Commenting never holds a token that could change code; Git's own token can do only that."""
    script = Script(lambda _: Reply(201, {"id": 5}))
    async with stub_server(script) as stub:
        client = stub.client(key)
        await client.repository(1, 42).react(ReactionTarget(kind="issue", id=3), "eyes")
        await client.token(42, 1, write=True)
        asked = [a.body["permissions"] for a in stub.asked if a.path.endswith("/access_tokens")]
        assert asked[-2]["contents"] == "read"
        assert asked[-1] == {"contents": "write", "metadata": "read"}


async def test_two_addresses_share_no_token(key: SecretStr) -> None:
    """A token minted at one GitHub is never shown to another."""
    answer = Script(lambda _: Reply(404, {"message": "Not Found"}))
    async with stub_server(answer) as one, stub_server(Script(answer.answer)) as two:
        for stub in (one, two):
            await stub.client(key).repository(1, 42).branch_sha("main")
        assert one.paths("POST") == two.paths("POST") == ["/app/installations/1/access_tokens"]


async def test_a_dead_token_is_replaced_once(key: SecretStr) -> None:
    """After a 401 the request goes out once more with a new token; a second 401 is an error."""
    dead: set[str] = {"token token-1"}

    def answer(asked: Asked) -> Reply:
        if asked.headers["authorization"] in dead:
            return Reply(401, {"message": "Bad credentials"})
        return Reply(200, {"object": {"sha": "c" * 40}})

    script = Script(answer)
    async with stub_server(script) as stub:
        repository = stub.client(key).repository(1, 42)
        assert await repository.branch_sha("main") == "c" * 40
        assert script.minted == 2
        dead |= {"token token-2", "token token-3"}
        with pytest.raises(GitHubRefused, match="Bad credentials"):
            await repository.branch_sha("main")
        assert script.minted == 3


async def test_no_redirect_takes_a_token_to_another_host(key: SecretStr) -> None:
    """A redirect is refused, and the other host never hears from us."""
    async with stub_server(lambda _: Reply(200, {})) as other:
        elsewhere = {"location": f"{other.url}/steal"}
        script = Script(lambda _: Reply(307, {}, elsewhere))
        async with stub_server(script) as stub:
            repository = stub.client(key).repository(1, 42)
            with pytest.raises(GitHubRefused, match="redirect"):
                await repository.branch_sha("main")
            with pytest.raises(GitHubRefused, match="redirect"):
                await repository.create_comment(3, "hello")
        assert other.asked == []


async def test_a_renamed_repository_is_found_under_its_new_name(key: SecretStr) -> None:
    """When GitHub redirects, the name is read again by id and the request repeated."""
    names = iter(["old", "new"])

    def answer(asked: Asked) -> Reply:
        if "/acme/old/" in asked.path:
            return Reply(301, {"message": "Moved Permanently"}, {"location": "/repositories/42"})
        return Reply(200, {"object": {"sha": "c" * 40}})

    def script(asked: Asked) -> Reply:
        if "/installation/repositories" in asked.path:
            return Reply(200, {"repositories": [{**REPO, "name": next(names)}]})
        return Script(answer)(asked)

    async with stub_server(script) as stub:
        repository = stub.client(key).repository(1, 42)
        assert await repository.branch_sha("main") == "c" * 40
        assert stub.paths("GET")[-1] == "/repos/acme/new/git/ref/heads/main"


async def test_a_silent_github_is_given_up(key: SecretStr) -> None:
    """A call that gets no answer ends with an error after its deadline."""
    async with stub_server(Script(lambda _: Reply(hang=True))) as stub:
        repository = stub.client(key, timeout=0.2).repository(1, 42)
        with pytest.raises(GitHubUnavailable, match="did not answer in time"):
            await repository.branch_sha("main")


@pytest.mark.parametrize(
    ("reply", "seconds"),
    [
        (Reply(429, {"message": "slow down"}, {"retry-after": "17"}), 17),
        (Reply(403, {"message": "slow down"}, {"retry-after": "17"}), 17),
        (Reply(403, {"message": "slow down"}, {"retry-after": "soon"}), 60),
        (Reply(429, {"message": "slow down"}), 60),
        (Reply(403, {"message": "You have exceeded a secondary rate limit."}), 60),
        (
            Reply(
                403,
                {"message": "API rate limit exceeded"},
                {
                    "x-ratelimit-remaining": "0",
                    "x-ratelimit-reset": "1000000090",
                    "date": "Sun, 09 Sep 2001 01:46:40 GMT",
                },
            ),
            90,
        ),
        (Reply(429, {"message": "slow down"}, {"retry-after": "999999"}), 3600),
    ],
)
async def test_rate_limits_say_when_to_come_back(
    key: SecretStr, reply: Reply, seconds: float
) -> None:
    """Each way GitHub announces a limit becomes a delay by GitHub's clock; nothing sleeps here."""
    async with stub_server(Script(lambda _: reply)) as stub:
        with pytest.raises(RateLimited) as caught:
            await stub.client(key).repository(1, 42).create_comment(3, "hello")
        assert caught.value.retry_after_seconds == seconds
        assert stub.paths("POST").count("/repos/acme/tool/issues/3/comments") == 1


async def test_graphql_limits_are_limits_too(key: SecretStr) -> None:
    """GraphQL announces its limit inside a 200."""
    limited = {"data": None, "errors": [{"type": "RATE_LIMITED", "message": "limit exceeded"}]}
    async with stub_server(Script(lambda _: Reply(200, limited))) as stub:
        with pytest.raises(RateLimited):
            await stub.client(key).repository(1, 42).review_summary(5)


async def test_a_forbidden_call_is_no_limit(key: SecretStr) -> None:
    """A 403 without signs of a limit is a refusal in GitHub's words."""
    reply = Reply(403, {"message": "Resource not accessible by integration"})
    async with stub_server(Script(lambda _: reply)) as stub:
        with pytest.raises(GitHubRefused, match="not accessible by integration") as caught:
            await stub.client(key).repository(1, 42).create_comment(3, "hello")
        assert not isinstance(caught.value, RateLimited)


async def test_refusals_keep_githubs_details(key: SecretStr) -> None:
    """A 422 says what its errors say."""
    errors = [{"resource": "PullRequest", "code": "custom", "message": "No commits between"}, "x"]
    reply = Reply(422, {"message": "Validation Failed", "errors": errors})
    async with stub_server(Script(lambda _: reply)) as stub:
        with pytest.raises(GitHubRefused, match="Validation Failed: No commits between: x"):
            await stub.client(key).repository(1, 42).create_comment(3, "hello")


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (Reply(404, {"message": "Not Found"}), AccessLost),
        (Reply(403, {"message": "This installation has been suspended"}), AccessLost),
        (Reply(422, {"message": "There is at least one repository that …"}), AccessLost),
        (Reply(422, {"message": "The permissions requested are not granted"}), GitHubRefused),
        (Reply(401, {"message": "A JSON web token could not be decoded"}), GitHubRefused),
    ],
)
async def test_a_lost_installation_is_told_apart(
    key: SecretStr, reply: Reply, error: type[GitHubError]
) -> None:
    """No token for a deleted or suspended installation; a missing permission is another matter."""
    async with stub_server(lambda _: reply) as stub:
        with pytest.raises(GitHubRefused) as caught:
            await stub.client(key).repository(1, 42).branch_sha("main")
        assert type(caught.value) is error or (
            error is GitHubRefused and not isinstance(caught.value, AccessLost)
        )


async def test_a_repository_taken_out_of_the_installation_is_lost(key: SecretStr) -> None:
    """A token that opens no such repository means that access is lost."""

    def script(asked: Asked) -> Reply:
        if asked.path.endswith("/access_tokens"):
            return Reply(201, {"token": "t"})
        return Reply(200, {"total_count": 0, "repositories": []})

    async with stub_server(script) as stub:
        with pytest.raises(AccessLost):
            await stub.client(key).repository(1, 42).facts()


async def test_every_page_is_read_from_this_host_only(key: SecretStr) -> None:
    """Lists are read to their end by the query of the `next` link; its host is ignored."""

    def answer(asked: Asked) -> Reply:
        review = {
            "id": 1,
            "user": {"id": 9, "login": "max", "type": "User"},
            "state": "COMMENTED",
            "commit_id": "c" * 40,
            "submitted_at": "2026-11-01T12:00:00Z",
            "body": "",
            "html_url": "",
        }
        if "page=2" in asked.path:
            return Reply(200, [{**review, "id": 101, "state": "CHANGES_REQUESTED"}])
        link = '<http://elsewhere.invalid/x?per_page=100&page=2>; rel="next"'
        return Reply(200, [{**review, "id": n} for n in range(100)], {"link": link})

    async with stub_server(Script(answer)) as stub:
        reviews = await stub.client(key).repository(1, 42).reviews(5)
        assert [review.state for review in reviews[-2:]] == ["COMMENTED", "CHANGES_REQUESTED"]
        assert len(reviews) == 101


async def test_enterprise_server_paths(key: SecretStr) -> None:
    """With /api/v3 in the address REST goes below it and GraphQL beside it."""

    def answer(_: Asked) -> Reply:
        pull = {
            "reviewDecision": "APPROVED",
            "reviewThreads": {
                "nodes": [{"isResolved": False}],
                "pageInfo": {"hasNextPage": False, "endCursor": None},
            },
        }
        return Reply(200, {"data": {"repository": {"pullRequest": pull}}})

    async with stub_server(Script(answer)) as stub:
        client = stub.client(key, prefix="/api/v3")
        summary = await client.repository(1, 42).review_summary(5)
        assert (summary.decision, summary.unresolved_threads) == ("APPROVED", 1)
        assert stub.paths("POST") == ["/api/v3/app/installations/1/access_tokens", "/api/graphql"]


PERMISSIONS = {
    "admin": {"admin": True, "maintain": True, "push": True, "triage": True, "pull": True},
    "maintain": {"admin": False, "maintain": True, "push": True, "triage": True, "pull": True},
    "write": {"admin": False, "maintain": False, "push": True, "triage": True, "pull": True},
    "triage": {"admin": False, "maintain": False, "push": False, "triage": True, "pull": True},
    "read": {"admin": False, "maintain": False, "push": False, "triage": False, "pull": True},
    "none": {"admin": False, "maintain": False, "push": False, "triage": False, "pull": False},
}


@pytest.mark.parametrize("level", PERMISSIONS)
async def test_permission_is_read_from_its_flags(key: SecretStr, level: str) -> None:
    """The flags count, whatever the role is called."""
    user = {"id": 9, "login": "max", "permissions": PERMISSIONS[level]}
    reply = Reply(200, {"permission": "admin", "role_name": "boss", "user": user})
    async with stub_server(Script(lambda _: reply)) as stub:
        found = await stub.client(key).repository(1, 42).permission(9, "max")
        assert found is Permission(level)


async def test_a_name_taken_over_brings_no_rights(key: SecretStr) -> None:
    """The account is looked up by id when the login belongs to somebody else by now."""

    def answer(asked: Asked) -> Reply:
        if asked.path == "/user/9":
            return Reply(200, {"id": 9, "login": "max-renamed"})
        taken = asked.path.endswith("/collaborators/max/permission")
        user = {"id": 66 if taken else 9, "permissions": PERMISSIONS["admin" if taken else "read"]}
        return Reply(200, {"permission": "x", "role_name": "x", "user": user})

    async with stub_server(Script(answer)) as stub:
        found = await stub.client(key).repository(1, 42).permission(9, "max")
        assert found is Permission.READ


async def test_an_unknown_account_has_no_permission_and_an_error_is_none(key: SecretStr) -> None:
    """404 means none; an error is raised, never read as a permission."""
    async with stub_server(Script(lambda _: Reply(404, {"message": "Not Found"}))) as stub:
        found = await stub.client(key).repository(1, 42).permission(9, "gone")
        assert found is Permission.NONE
    async with stub_server(Script(lambda _: Reply(500, {}))) as stub:
        with pytest.raises(GitHubUnavailable):
            await stub.client(key).repository(1, 42).permission(9, "max")


async def test_errors_never_show_a_token(key: SecretStr) -> None:
    """Neither the text of an error nor what it was caused by holds the token."""
    async with stub_server(Script(lambda _: Reply(raw=b"<html>", status=200))) as stub:
        with pytest.raises(GitHubUnavailable) as caught:
            await stub.client(key).repository(1, 42).create_comment(3, "hello")
        assert "token-1" not in repr(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__
