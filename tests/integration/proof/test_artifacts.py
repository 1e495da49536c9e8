"""Bytes come back to whom they belong, whole, or not at all; in a folder and in an S3 bucket."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import boto3
import pytest
from moto.server import ThreadedMotoServer
from obstore.store import S3Store

from bot.proof import artifacts_of
from bot.settings import load_settings
from workspace.artifacts import (
    ArtifactMissing,
    FolderArtifacts,
    ObjectArtifacts,
    parse_artifact_uri,
)

Store = FolderArtifacts | ObjectArtifacts


@pytest.fixture(scope="session")
def s3_url() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(s3_url: str) -> S3Store:
    keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
    client = boto3.client("s3", endpoint_url=s3_url, region_name="us-east-1", **keys)
    client.create_bucket(Bucket="artifacts")
    return S3Store(
        "artifacts",
        endpoint=s3_url,
        region="us-east-1",
        access_key_id="test",
        secret_access_key="test",
        virtual_hosted_style_request=False,
        client_options={"allow_http": True},
    )


@pytest.fixture
def named_store(
    bucket: S3Store, s3_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Store:
    """The store as an operator names it: a URL, and the cloud's own variables beside it."""
    for name, value in {
        "ARTIFACTS_URL": "s3://artifacts/some/prefix",
        "ULTRACODE_DATA_DIR": str(tmp_path),
        "AWS_ENDPOINT_URL": s3_url,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
    }.items():
        monkeypatch.setenv(name, value)
    return artifacts_of(load_settings())


async def test_an_operator_names_a_bucket(
    bucket: S3Store, named_store: Store, tmp_path: Path
) -> None:
    """With `ARTIFACTS_URL` bytes go to that place in the bucket, and nothing to the data folder."""
    stored = await named_store.put(1, "run00001", b"bytes", "text/plain")
    assert await named_store.get(1, "run00001", stored.sha256) == b"bytes"
    key = f"some/prefix/1/run00001/{stored.sha256[:2]}/{stored.sha256}"
    assert bytes(await (await bucket.get_async(key)).bytes_async()) == b"bytes"
    assert list(tmp_path.iterdir()) == []
    await named_store.forget_run(1, "run00001")
    with pytest.raises(ArtifactMissing):
        await named_store.get(1, "run00001", stored.sha256)


@pytest.fixture(params=["folder", "s3"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    if request.param == "folder":
        yield FolderArtifacts(tmp_path / "artifacts")
    else:
        yield ObjectArtifacts(request.getfixturevalue("bucket"))


async def test_bytes_come_back(store: Store) -> None:
    """What was stored is read by repository, run and digest, and named by them."""
    stored = await store.put(1, "run00001", b"\x00bytes", "text/plain")
    assert await store.get(1, "run00001", stored.sha256) == b"\x00bytes"
    assert parse_artifact_uri(stored.uri) == (1, "run00001", stored.sha256)
    assert (stored.size, stored.media_type) == (6, "text/plain")


async def test_foreign_and_unknown_look_the_same(store: Store) -> None:
    """Another repository's or run's bytes are as missing as bytes that never were."""
    stored = await store.put(1, "run00001", b"secret", "text/plain")
    errors = []
    for owner in ((2, "run00001", stored.sha256), (1, "run00002", stored.sha256),
                  (1, "run00001", "0" * 64)):  # fmt: skip
        with pytest.raises(ArtifactMissing) as missing:
            await store.get(*owner)
        errors.append(str(missing.value))
    assert len(set(errors)) == 1


@pytest.mark.parametrize("name", ["../run00001", "..", "a/b", "", "run\0"])
async def test_a_name_that_is_a_path_reaches_nothing(store: Store, name: str) -> None:
    """Neither run nor digest can lead out of the store."""
    with pytest.raises(ArtifactMissing):
        await store.get(1, name, "0" * 64)
    with pytest.raises(ArtifactMissing):
        await store.get(1, "run00001", f"../{name}")
    with pytest.raises(ArtifactMissing):
        await store.put(1, name, b"", "text/plain")


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "artifact:1/r/0",
        "file:///etc/passwd",
        f"artifact:x/r/{'0' * 64}",
        f"artifact:²/r/{'0' * 64}",
        f"artifact:{'1' * 5000}/r/{'0' * 64}",
    ],
)
def test_only_our_own_addresses_are_read(uri: str) -> None:
    """An address that was not made here names nothing."""
    with pytest.raises(ArtifactMissing):
        parse_artifact_uri(uri)


async def test_many_writers_of_the_same_bytes_agree(store: Store) -> None:
    """The same bytes stored twenty times at once are there once, whole."""
    content = b"x" * 100_000
    stored = await asyncio.gather(*(store.put(1, "run00001", content, "t") for _ in range(20)))
    assert len({artifact.uri for artifact in stored}) == 1
    assert await store.get(1, "run00001", stored[0].sha256) == content


async def test_forgetting_a_run_leaves_other_runs_alone(store: Store) -> None:
    """When a run's retention ends its bytes go, the same bytes of another run stay."""
    first = await store.put(1, "run00001", b"same", "text/plain")
    await store.put(1, "run00002", b"same", "text/plain")
    await store.forget_run(1, "run00001")
    with pytest.raises(ArtifactMissing):
        await store.get(1, "run00001", first.sha256)
    assert await store.get(1, "run00002", first.sha256) == b"same"


async def test_damaged_bytes_are_missing_and_can_be_stored_again(tmp_path: Path) -> None:
    """Bytes that are no longer what they were are not handed out; storing them again repairs."""
    store = FolderArtifacts(tmp_path)
    stored = await store.put(1, "run00001", b"right", "text/plain")
    (path,) = (path for path in tmp_path.rglob("*") if path.is_file())
    path.write_bytes(b"wrong")
    with pytest.raises(ArtifactMissing):
        await store.get(1, "run00001", stored.sha256)
    await store.put(1, "run00001", b"right", "text/plain")
    assert await store.get(1, "run00001", stored.sha256) == b"right"


async def test_nobody_else_reads_the_folder(tmp_path: Path) -> None:
    """Artifacts hold repository content: their folders are for the bot's user alone."""
    await FolderArtifacts(tmp_path / "artifacts").put(1, "run00001", b"x", "text/plain")
    assert (tmp_path / "artifacts").stat().st_mode & 0o077 == 0
