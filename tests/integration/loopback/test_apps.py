"""Apps: keys, tokens and what they may do, deliveries, suspension, manifests, sign-in."""

import base64
import hashlib
import json
import time
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import jwt
import pytest

from evals.loopback import LoopbackGitHub

from .conftest import Receiver

AsPerson = Callable[[str], httpx.AsyncClient]


@pytest.fixture
async def anybody(github: LoopbackGitHub) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=github.api_url, trust_env=False) as client:
        yield client


def signed(github: LoopbackGitHub, key: str | None = None, **claims: Any) -> dict[str, str]:
    now = int(time.time())
    wanted = {"iat": now - 5, "exp": now + 300, "iss": str(github.app.id), **claims}
    value = jwt.encode(wanted, key or github.app.private_key, algorithm="RS256")
    return {"Authorization": f"Bearer {value}"}


# --- keys ---


async def test_app_proves_itself(github: LoopbackGitHub, anybody: httpx.AsyncClient) -> None:
    """A token signed with the App's key, by App id or client id, opens `GET /app`."""
    for issuer in (str(github.app.id), github.app.client_id):
        answer = await anybody.get("/app", headers=signed(github, iss=issuer))
        assert answer.json()["slug"] == "ultracode"


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        (lambda now: {"exp": 1}, "'exp'"),
        (lambda now: {"exp": now + 3600}, "too far in the future"),
        (lambda now: {"iat": now + 600}, "'iat'"),
        (lambda now: {"iss": "12"}, "Integration not found"),
    ],
)
async def test_bad_claims(
    github: LoopbackGitHub,
    anybody: httpx.AsyncClient,
    claims: Callable[[int], dict[str, Any]],
    words: str,
) -> None:
    """A key's token that is too old, too long, from the future or of nobody is refused.

    The claims are made when the test runs: made when it is collected, they are a quarter of an
    hour old at the end of a long session, and a token from the future has become a good one.
    """
    answer = await anybody.get("/app", headers=signed(github, **claims(int(time.time()))))
    assert answer.status_code == 401
    assert words in answer.json()["message"]


async def test_foreign_key_and_swapped_kinds(
    github: LoopbackGitHub, anybody: httpx.AsyncClient
) -> None:
    """Another App's key does not open this App; App and installation tokens open other doors."""
    foreign = signed(github, key=github.other_app.private_key, iss=str(github.app.id))
    if github.other_app.private_key != github.app.private_key:
        assert (await anybody.get("/app", headers=foreign)).status_code == 401
    repository = await anybody.get("/repos/acme/sums", headers=signed(github))
    assert repository.status_code == 401
    token = {"Authorization": f"token {github.token_of(github.app)}"}
    assert (await anybody.get("/app", headers=token)).status_code == 401
    assert (await anybody.get("/user", headers=token)).status_code == 403


# --- tokens ---


async def mint(github: LoopbackGitHub, anybody: httpx.AsyncClient, **wanted: Any) -> httpx.Response:
    where = f"/app/installations/{github.installation.id}/access_tokens"
    return await anybody.post(where, json=wanted, headers=signed(github))


def bearing(answer: httpx.Response) -> dict[str, str]:
    return {"Authorization": f"Bearer {answer.json()['token']}"}


async def test_narrowed_token(github: LoopbackGitHub, anybody: httpx.AsyncClient) -> None:
    """A token narrowed to reading issues can do that and nothing else."""
    issue = await github.open_issue(as_user="writer", title="One")
    answer = await mint(github, anybody, permissions={"issues": "read"}, repositories=["sums"])
    shown = answer.json()
    assert shown["permissions"] == {"issues": "read", "metadata": "read"}
    assert [r["name"] for r in shown["repositories"]] == ["sums"]
    where, auth = f"/repos/acme/sums/issues/{issue.number}", bearing(answer)
    assert (await anybody.get(where, headers=auth)).status_code == 200
    said = await anybody.post(f"{where}/comments", json={"body": "hi"}, headers=auth)
    assert (said.status_code, said.json()["message"]) == (
        403,
        "Resource not accessible by integration",
    )
    read = await anybody.get("/repos/acme/sums/contents/README.md", headers=auth)
    assert read.status_code == 403


async def test_no_more_than_granted(github: LoopbackGitHub, anybody: httpx.AsyncClient) -> None:
    """Nobody mints a token wider than the installation, or for a repository it does not cover."""
    assert (await mint(github, anybody, permissions={"workflows": "write"})).status_code == 422
    assert (await mint(github, anybody, repositories=["none"])).status_code == 422
    assert (await mint(github, anybody, repository_ids=[1])).status_code == 422


async def test_tokens_end(github: LoopbackGitHub, anybody: httpx.AsyncClient) -> None:
    """A token ends after an hour, when it is revoked, and when the App is uninstalled."""
    auth = bearing(await mint(github, anybody))
    assert (await anybody.get("/installation/repositories", headers=auth)).status_code == 200
    assert (await anybody.delete("/installation/token", headers=auth)).status_code == 204
    assert (await anybody.get("/installation/repositories", headers=auth)).status_code == 401
    auth = bearing(await mint(github, anybody))
    github.world.clock_offset = timedelta(minutes=61)
    assert (await anybody.get("/installation/repositories", headers=auth)).status_code == 401
    github.world.clock_offset = timedelta()
    github.uninstall(github.app)
    assert (await anybody.get("/installation/repositories", headers=auth)).status_code == 401
    assert (await mint(github, anybody)).status_code == 404


async def test_suspension(
    github: LoopbackGitHub, anybody: httpx.AsyncClient, receiver: Receiver
) -> None:
    """While suspended an App mints nothing, reads nothing and hears nothing."""
    auth = bearing(await mint(github, anybody))
    github.suspend(github.app)
    assert (await mint(github, anybody)).status_code == 403
    assert (await anybody.get("/repos/acme/sums", headers=auth)).status_code == 403
    await github.open_issue(as_user="writer", title="Unheard")
    github.unsuspend(github.app)
    await github.open_issue(as_user="writer", title="Heard")
    await github.settle()
    assert receiver.actions("installation") == ["created", "suspend", "unsuspend"]
    assert [b["issue"]["title"] for n, b in receiver.received if n == "issues"] == ["Heard"]


async def test_installation_by_repository(
    github: LoopbackGitHub, anybody: httpx.AsyncClient
) -> None:
    """An App finds its installation by repository and account, and not where it has none."""
    for where in ("/repos/acme/sums/installation", "/orgs/acme/installation"):
        found = await anybody.get(where, headers=signed(github))
        assert found.json()["id"] == github.installation.id
    none = await anybody.get("/repos/acme/none/installation", headers=signed(github))
    assert none.status_code == 404
    listed = await anybody.get("/app/installations", headers=signed(github))
    assert [one["id"] for one in listed.json()] == [github.installation.id]


# --- deliveries ---


async def test_redelivery(
    github: LoopbackGitHub, anybody: httpx.AsyncClient, receiver: Receiver
) -> None:
    """A delivery that failed is listed, shows both sides, and comes again under its GUID."""
    receiver.status = 500
    await github.open_issue(as_user="writer", title="One")
    await github.settle()
    receiver.status = 202
    listed = (await anybody.get("/app/hook/deliveries", headers=signed(github))).json()
    failed = listed[0]
    assert (failed["event"], failed["status_code"]) == ("issues", 500)
    where = f"/app/hook/deliveries/{failed['id']}"
    shown = (await anybody.get(where, headers=signed(github))).json()
    assert shown["request"]["payload"]["issue"]["title"] == "One"
    again = await anybody.post(f"{where}/attempts", headers=signed(github))
    assert again.status_code == 202
    await github.settle()
    assert receiver.guids[-1] == receiver.guids[-2] == failed["guid"]
    newest = (await anybody.get("/app/hook/deliveries", headers=signed(github))).json()[0]
    assert (newest["redelivery"], newest["status"]) == (True, "OK")


async def test_deliveries_have_pages(github: LoopbackGitHub, anybody: httpx.AsyncClient) -> None:
    """The list of deliveries goes on by cursor."""
    for number in range(5):
        await github.open_issue(as_user="writer", title=str(number))
    await github.settle()
    where, seen = "/app/hook/deliveries?per_page=2", []
    while where:
        answer = await anybody.get(where, headers=signed(github))
        seen += [one["id"] for one in answer.json()]
        where = answer.links.get("next", {}).get("url", "")
    assert len(seen) == len(set(seen)) == 6


async def test_hook_address_changes(github: LoopbackGitHub, anybody: httpx.AsyncClient) -> None:
    """The App reads and changes where its webhooks go; the secret is never shown."""
    shown = (await anybody.get("/app/hook/config", headers=signed(github))).json()
    assert shown["url"].endswith("/hooks")
    assert shown["secret"] == "********"
    wanted = {"url": "http://127.0.0.1:9/elsewhere"}
    await anybody.patch("/app/hook/config", json=wanted, headers=signed(github))
    assert github.app.webhook_url == wanted["url"]
    await github.open_issue(as_user="writer", title="Lost")
    await github.settle()
    assert github.deliveries[-1].status == "failed to connect to host"


# --- manifests ---


MANIFEST: dict[str, Any] = {
    "name": "Second",
    "url": "http://127.0.0.1:8000",
    "hook_attributes": {"url": "http://127.0.0.1:8000/webhooks/github"},
    "redirect_url": "http://127.0.0.1:8123/done",
    "callback_urls": ["http://127.0.0.1:8000/auth"],
    "public": False,
    "default_permissions": {"issues": "write", "contents": "write"},
    "default_events": ["issues", "push"],
}


async def test_manifest_flow(github: LoopbackGitHub, anybody: httpx.AsyncClient) -> None:
    """A manifest leads over a person's consent to an App, whose secrets are shown once."""
    offer = await anybody.post(
        "/organizations/acme/settings/apps/new?state=s1", data={"manifest": json.dumps(MANIFEST)}
    )
    assert "Create the App Second?" in offer.text
    agreed = await anybody.post(
        "/settings/apps/create",
        data={"manifest": json.dumps(MANIFEST), "state": "s1", "owner": "acme", "as": "admin"},
    )
    back = urlsplit(agreed.headers["location"])
    asked = parse_qs(back.query)
    assert (back.netloc, asked["state"]) == ("127.0.0.1:8123", ["s1"])
    where = f"/app-manifests/{asked['code'][0]}/conversions"
    app = (await anybody.post(where)).json()
    assert app["owner"]["login"] == "acme"
    assert app["permissions"] == {"issues": "write", "contents": "write", "metadata": "read"}
    assert app["pem"].startswith("-----BEGIN RSA PRIVATE KEY-----")
    assert (await anybody.post(where)).status_code == 404
    await anybody.post(
        f"/apps/{app['slug']}/installations/new", data={"owner": "acme", "as": "admin"}
    )
    claims = {"iat": int(time.time()), "exp": int(time.time()) + 60, "iss": app["client_id"]}
    auth = {"Authorization": f"Bearer {jwt.encode(claims, app['pem'], algorithm='RS256')}"}
    installed = (await anybody.get("/app/installations", headers=auth)).json()
    assert installed[0]["account"]["login"] == "acme"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": "x" * 35}, "Name is too long"),
        ({"name": "Ultracode"}, "Name is already taken"),
        ({"default_events": ["installation"]}, "Default events unsupported: installation"),
        ({"default_events": ["status"]}, "not supported by permissions: status"),
        ({"default_permissions": {"pulls": "write"}}, "not included in the list: pulls"),
        ({"redirect_url": "nowhere"}, "Redirect url must be a valid URL"),
        ({"hook_attributes": {"url": ""}}, "Hook url must be a valid URL"),
        ({"events": ["push"]}, "events is not a permitted key"),
    ],
)
async def test_refused_manifests(
    github: LoopbackGitHub, anybody: httpx.AsyncClient, change: dict[str, Any], words: str
) -> None:
    """A manifest GitHub would not take is refused with its reason."""
    text = json.dumps({**MANIFEST, **change})
    answer = await anybody.post("/settings/apps/new", data={"manifest": text})
    assert answer.status_code == 422
    assert words in answer.text


# --- signing in ---


async def test_sign_in(
    github: LoopbackGitHub, anybody: httpx.AsyncClient, receiver: Receiver
) -> None:
    """A person signs in with PKCE and may do what both they and the App may."""
    verifier = "v" * 50
    digest = hashlib.sha256(verifier.encode()).digest()
    callback = receiver.url.replace("/hooks", "/auth/callback")
    asked = {
        "client_id": github.app.client_id,
        "redirect_uri": callback,
        "state": "s2",
        "code_challenge": base64.urlsafe_b64encode(digest).decode().rstrip("="),
        "code_challenge_method": "S256",
    }
    page = await anybody.get("/login/oauth/authorize", params=asked)
    assert "Sign in to Ultracode?" in page.text
    agreed = await anybody.post("/login/oauth/authorize", data={**asked, "as": "reader"})
    location = urlsplit(agreed.headers["location"])
    assert parse_qs(location.query)["state"] == ["s2"]
    proof = {
        "client_id": github.app.client_id,
        "client_secret": github.app.client_secret,
        "code": parse_qs(location.query)["code"][0],
        "redirect_uri": callback,
        "code_verifier": verifier,
    }
    accept = {"Accept": "application/json"}
    token = (await anybody.post("/login/oauth/access_token", data=proof, headers=accept)).json()
    auth = {"Authorization": f"Bearer {token['access_token']}"}
    assert (await anybody.get("/user", headers=auth)).json()["login"] == "rene"
    github.repository().private = True
    assert (await anybody.get("/repos/acme/sums", headers=auth)).status_code == 200
    github.uninstall(github.app)
    assert (await anybody.get("/repos/acme/sums", headers=auth)).status_code == 404
    again = (await anybody.post("/login/oauth/access_token", data=proof, headers=accept)).json()
    assert again["error"] == "bad_verification_code"


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"client_secret": "wrong"}, "incorrect_client_credentials"),
        ({"code": "wrong"}, "bad_verification_code"),
        ({"code_verifier": "wrong"}, "bad_verification_code"),
        ({"redirect_uri": "http://127.0.0.1:1/"}, "redirect_uri_mismatch"),
    ],
)
async def test_refused_sign_ins(
    github: LoopbackGitHub,
    anybody: httpx.AsyncClient,
    receiver: Receiver,
    change: dict[str, str],
    error: str,
) -> None:
    """A code is worth nothing with a wrong secret, verifier or address."""
    account, callback = github.person("reader").account, receiver.url
    digest = hashlib.sha256(b"right").digest()
    code = github.signins.consent(
        github.world,
        github.app,
        account,
        redirect_uri=callback,
        challenge=base64.urlsafe_b64encode(digest).decode().rstrip("="),
    )
    proof = {
        "client_id": github.app.client_id,
        "client_secret": github.app.client_secret,
        "code": code,
        "redirect_uri": callback,
        "code_verifier": "right",
        **change,
    }
    accept = {"Accept": "application/json"}
    answer = await anybody.post("/login/oauth/access_token", data=proof, headers=accept)
    assert answer.json()["error"] == error


async def test_unregistered_redirect(github: LoopbackGitHub, anybody: httpx.AsyncClient) -> None:
    """Nobody is sent to an address that the App did not register."""
    asked = {"client_id": github.app.client_id, "redirect_uri": "http://127.0.0.1:1/steal"}
    assert (await anybody.get("/login/oauth/authorize", params=asked)).status_code == 422
