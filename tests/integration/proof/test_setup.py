"""Set-up installs once, from its inputs alone, reading named registries and nothing else."""

import asyncio
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.proof.conftest import PYTEST, PYTEST_SETUP
from tests.integration.proof.registry import LoopbackRegistries, run_registries
from tests.integration.proof.scenario import FIX, REPOSITORY, RUN, TINY_FILES, Proof, make_pin
from workspace.contracts import RepoRef, RunPin, Setup, Suite
from workspace.errors import WorkspaceRefusal
from workspace.registries import Rule
from workspace.registry_proxy import run_registry_proxy
from workspace.sandbox.backend import Sandbox
from workspace.sandbox.local import LocalSandbox
from workspace.sealing import SetupFailed
from workspace.setup import Dependencies

pytestmark = pytest.mark.sandbox
FILES = {**TINY_FILES, "requirements.txt": "one\n", "secret.txt": "not for set-up\n"}


def pin(
    proof: Proof, setup: Setup, files: dict[str, str] | None = None, **changes: object
) -> RunPin:
    return make_pin(proof.repository.commit(files or FILES), setup=setup, **changes)


async def test_what_setup_leaves_is_there_for_suites_read_only(proof: Proof) -> None:
    """Programs and modules of set-up are found by suites, which cannot change them."""
    setup = Setup(
        run="mkdir $ULTRACODE_DEPS/bin $ULTRACODE_DEPS/python node_modules; "
        "printf '#!/bin/sh\\necho here' > $ULTRACODE_DEPS/bin/tool; "
        "chmod +x $ULTRACODE_DEPS/bin/tool; "
        "echo 'x = 1' > $ULTRACODE_DEPS/python/installed.py; "
        "echo 'module.exports = 1' > node_modules/installed.js"
    )
    suite = Suite(
        id="unit",
        run="tool && python3 -c 'import installed' && test -f node_modules/installed.js && "
        "! touch /deps/bin/x && ! rm /deps/bin/tool && ! sh -c 'echo >> /deps/bin/tool'",
    )
    report = await proof.judge(TINY_FILES, {"calc.py": FIX}, suite, setup=setup)
    assert report.passed, report.suites[0].reason


async def test_setup_sees_its_inputs_from_the_base_and_nothing_else(proof: Proof) -> None:
    """Neither other files of the repository nor the candidate's inputs are there."""
    listing = Setup(
        run="(find . -type f | sort; cat requirements.txt) > $ULTRACODE_DEPS/found",
        inputs=("requirements.txt",),
    )
    shown = Suite(id="unit", run="cat /deps/found")
    await proof.judge(FILES, {"requirements.txt": "changed\n"}, shown, setup=listing)
    sealed = await proof.dependencies.seal(proof.pin)
    assert (sealed.folder / "found").read_text() == "./requirements.txt\none\n"


async def test_setup_runs_once_for_equal_inputs(proof: Proof, tmp_path: Path) -> None:
    """Four runs that want the same dependencies at once install them once."""
    setup = Setup(run="date +%s%N > $ULTRACODE_DEPS/when", inputs=("requirements.txt",))
    run = pin(proof, setup)
    first, second = (
        Dependencies(
            tmp_path / "once",
            sandbox=proof.sandbox,
            trees=proof.repository,
            temporary=tmp_path / "temporary",
        )
        for _ in range(2)
    )
    sealed = await asyncio.gather(*(first.seal(run) for _ in range(4)))
    assert {found.seal for found in [*sealed, await second.seal(run)]} == {sealed[0].seal}


@pytest.mark.parametrize("what", ["inputs", "command", "repository"])
async def test_other_inputs_command_or_repository_are_other_dependencies(
    proof: Proof, what: str
) -> None:
    """Dependencies are shared only where everything they depend on is equal."""
    setup = Setup(run="cp requirements.txt $ULTRACODE_DEPS", inputs=("requirements.txt",))
    first = await proof.dependencies.seal(pin(proof, setup))
    other = {
        "inputs": pin(proof, setup, {**FILES, "requirements.txt": "two\n"}),
        "command": pin(proof, setup.model_copy(update={"run": setup.run + " "})),
        "repository": pin(proof, setup, repo=RepoRef(id=2, url="https://example.org/x/y.git")),
    }[what]
    second = await proof.dependencies.seal(other)
    assert first.folder != second.folder
    assert first.seal != second.seal


async def test_the_seal_covers_the_content(tmp_path: Path, proof: Proof) -> None:
    """What installs alike has one seal in any folder, what does not has another."""

    def elsewhere(name: str) -> Dependencies:
        return Dependencies(
            tmp_path / name,
            sandbox=proof.sandbox,
            trees=proof.repository,
            temporary=tmp_path / "temporary",
        )

    same = pin(proof, Setup(run="echo 1 > $ULTRACODE_DEPS/x; ln -s x $ULTRACODE_DEPS/y"))
    drifting = pin(proof, Setup(run="date +%s%N > $ULTRACODE_DEPS/x"))
    for run, seals in ((same, 1), (drifting, 2)):
        found = [await elsewhere(name).seal(run) for name in ("a", "b")]
        assert len({sealed.seal for sealed in found}) == seals


@pytest.mark.parametrize(
    ("setup", "words"),
    [
        (Setup(run="echo no such thing >&2; exit 3"), "exit code 3"),
        (Setup(run="sleep 60", timeout_seconds=1), "timeout"),
        (Setup(run="true", inputs=("missing.txt",)), "no file for the set-up input missing.txt"),
        (Setup(run="mkfifo $ULTRACODE_DEPS/pipe && sleep 0"), "set-up left"),
        (Setup(run="true", network=("ftp",)), "known registries are python, npm"),
    ],
    ids=lambda value: value.run if isinstance(value, Setup) else "",
)
async def test_a_setup_that_fails_says_why(proof: Proof, setup: Setup, words: str) -> None:
    """The sentence names what went wrong, and nothing stays behind."""
    run = pin(proof, setup)
    for _ in range(2):
        with pytest.raises(WorkspaceRefusal, match=words):
            await proof.dependencies.seal(run)
    assert list((proof.folder / "temporary").glob("*")) == []


# --- the network ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def registries() -> Iterator[LoopbackRegistries]:
    with run_registries() as running:
        yield running


@pytest.fixture
def dependencies(
    tmp_path: Path, proof: Proof, sandbox: Sandbox, registries: LoopbackRegistries
) -> Dependencies:
    return Dependencies(
        tmp_path / "networked",
        sandbox=sandbox,
        trees=proof.repository,
        temporary=tmp_path / "temporary",
        upstream=registries.upstream,
    )


async def test_pip_installs_through_the_proxy(proof: Proof, dependencies: Dependencies) -> None:
    """Plain `pip install` works where policy names the python registry."""
    setup = Setup(run="python3 -m pip install tiny-package", network=("python",))
    sealed = await dependencies.seal(pin(proof, setup))
    assert sealed.importable == ("tiny_module",)
    assert (sealed.folder / "python" / "bin" / "tiny-program").is_file()


async def test_npm_installs_through_the_proxy(proof: Proof, dependencies: Dependencies) -> None:
    """Plain `npm install` works where policy names the npm registry."""
    setup = Setup(run="npm install --no-audit --no-fund tiny", network=("npm",))
    sealed = await dependencies.seal(pin(proof, setup))
    assert (sealed.folder / "node_modules" / "tiny" / "index.js").is_file()


ASK = """\
import sys, urllib.request
request = urllib.request.Request(sys.argv[1], method=sys.argv[2], data=(sys.argv[3:] or [None])[0])
urllib.request.urlopen(request, timeout=10)
"""


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        ("https://example.org/ GET", "example.org:443 is no registry"),
        ("https://registry.npmjs.org/tiny GET", "no registry that policy names"),
        ("https://pypi.org/simple/tiny-package/ POST", "POST to pypi.org is not passed on"),
        ("https://pypi.org/legacy/ GET", "pypi.org/legacy/ is not a path that may be read"),
        ("https://pypi.org/simple/../legacy/ GET", "not a path that may be read"),
        ("https://pypi.org:8443/simple/ GET", "pypi.org:8443 is no registry"),
        ("https://127.0.0.1/simple/ GET", "127.0.0.1:443 is no registry"),
    ],
)
async def test_everything_else_is_refused_by_name(
    proof: Proof, dependencies: Dependencies, ask: str, words: str
) -> None:
    """Another host, registry, method, path or port is not reached, and the sentence says so."""
    setup = Setup(run=f"python3 ask.py {ask}", inputs=("ask.py",), network=("python",))
    with pytest.raises(SetupFailed, match=words):
        await dependencies.seal(pin(proof, setup, {"ask.py": ASK}))


async def test_without_a_name_in_policy_there_is_no_network(
    proof: Proof, dependencies: Dependencies, registries: LoopbackRegistries
) -> None:
    """Set-up that names no registry reaches nothing at all."""
    before = len(registries.requests)
    setup = Setup(run="python3 -m pip install --retries 0 --timeout 2 tiny-package")
    with pytest.raises(SetupFailed):
        await dependencies.seal(pin(proof, setup))
    assert len(registries.requests) == before


async def test_a_name_that_leads_inside_is_refused(tmp_path: Path) -> None:
    """An allowed name that resolves to an address of this network is not reached."""
    async with run_registry_proxy([Rule("localhost", ("/",))], tmp_path) as proxy:
        reader, writer = await asyncio.open_unix_connection(str(proxy.socket))
        writer.write(b"CONNECT localhost:443 HTTP/1.1\r\n\r\n")
        assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
        trust = ssl.create_default_context(cafile=str(proxy.authority))
        await writer.start_tls(trust, server_hostname="localhost")
        writer.write(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
        answer = await reader.read()
        writer.close()
    assert answer.startswith(b"HTTP/1.1 403")
    assert b"which is not public" in answer
    assert len(proxy.refused) == 1


async def test_under_trust_the_local_runner_installs_as_well(
    tmp_path: Path, wheels: dict[str, bytes]
) -> None:
    """Without isolation suites find what set-up installed, in its place on the host."""
    proof = Proof(tmp_path, LocalSandbox(), tmp_path / "shared")
    tests = {"test_it.py": "def test_it():\n    assert True\n"}
    report = await proof.judge({**wheels, **tests}, {"more.txt": "x"}, PYTEST, setup=PYTEST_SETUP)
    log = await proof.artifacts.get(REPOSITORY, RUN, report.suites[0].log.sha256)
    assert report.passed, log.decode()
    assert (report.sandbox, report.suites[0].canary) == ("local", "failed")
    assert not report.guarantees["network_denied"]


async def test_python_is_there_by_its_plain_name(proof: Proof) -> None:
    """A policy may say `python` where the system only has `python3`, in set-up and in suites."""
    plain = Suite(id="unit", run="python -c 'import calc; assert calc.add(1, 1) == 2'")
    for setup in (None, Setup(run="python -c 'print(1)'")):
        report = await proof.judge(TINY_FILES, {"calc.py": FIX}, plain, setup=setup)
        assert report.passed, report.suites[0].reason


async def test_unused_dependencies_go(proof: Proof, tmp_path: Path) -> None:
    """What no run has asked for in a while is removed, and installed again when it is wanted."""
    dependencies = Dependencies(
        tmp_path / "unused",
        sandbox=proof.sandbox,
        trees=proof.repository,
        temporary=tmp_path / "temporary",
    )
    run = pin(proof, Setup(run="echo 1 > $ULTRACODE_DEPS/x"))
    sealed = await dependencies.seal(run)
    await dependencies.tidy(older_than_seconds=3600)
    assert sealed.folder.is_dir()
    await dependencies.tidy(older_than_seconds=-1)
    assert not sealed.folder.exists()
    assert await dependencies.seal(run) == sealed
