"""Dockerfile and compose.yaml, read as an engine reads them. No engine is needed."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

CHECKOUT = Path(__file__).parents[2]
Instruction = tuple[str, str]


@pytest.fixture(scope="module")
def instructions() -> list[Instruction]:
    lines = (CHECKOUT / "Dockerfile").read_text()
    kept = "\n".join(line for line in lines.splitlines() if not line.lstrip().startswith("#"))
    joined = re.sub(r"\\\n\s*", " ", kept)
    return [(line.split()[0], line.split(maxsplit=1)[1]) for line in joined.splitlines() if line]


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    found = yaml.safe_load((CHECKOUT / "compose.yaml").read_text())
    assert isinstance(found, dict)
    return found


def of(instructions: list[Instruction], name: str) -> list[str]:
    return [words for instruction, words in instructions if instruction == name]


def test_the_image_is_debian_13_and_runs_as_nobody_special(
    instructions: list[Instruction],
) -> None:
    """The last user is a number other than root's, which an orchestrator can verify."""
    assert {words.split()[0] for words in of(instructions, "FROM")} == {"debian:trixie-slim"}
    assert int(of(instructions, "USER")[-1]) > 0
    last_from = max(n for n, (name, _) in enumerate(instructions) if name == "FROM")
    assert "USER" in {name for name, _ in instructions[last_from:]}


def test_the_image_has_git_and_a_bubblewrap_that_is_new_enough(
    instructions: list[Instruction],
) -> None:
    """An older bubblewrap stops the build."""
    last = of(instructions, "RUN")[-1]
    assert {"git", "bubblewrap"} <= set(last.split())
    assert "ge 0.12" in last


def test_packages_leave_no_lists_and_pull_no_recommendations(
    instructions: list[Instruction],
) -> None:
    """Every apt-get install is lean and in one layer with its update; nothing is fetched by ADD."""
    for run in of(instructions, "RUN"):
        if "apt-get install" in run:
            assert "--no-install-recommends" in run
            assert "rm -rf /var/lib/apt/lists/*" in run
            assert run.index("apt-get update") < run.index("apt-get install")
    assert not of(instructions, "ADD")
    assert "ultracode" in json.loads(of(instructions, "ENTRYPOINT")[0])


def test_what_is_copied_exists_and_is_let_through(instructions: list[Instruction]) -> None:
    """.dockerignore starts from nothing: neither secrets nor the stage reach the engine."""
    ignored = (CHECKOUT / ".dockerignore").read_text().split()
    assert ignored[0] == "*"
    let_through = {name.removeprefix("!") for name in ignored if name.startswith("!")}
    copied = [words for words in of(instructions, "COPY") if not words.startswith("--from")]
    sources = {source.removeprefix("./") for words in copied for source in words.split()[:-1]}
    assert sources == let_through
    for source in sources:
        assert (CHECKOUT / source).exists()
    assert {"evals", "tests"}.isdisjoint(let_through)


def test_compose_runs_postgres_web_and_worker(compose: dict[str, Any]) -> None:
    """Web and worker run one role each on the same database, after it is healthy."""
    services = compose["services"]
    assert set(services) == {"postgres", "web", "worker"}
    for role in ("web", "worker"):
        service = services[role]
        assert service["command"][:3] == ["serve", "--role", role]
        assert service["depends_on"]["postgres"]["condition"] == "service_healthy"
        assert service["cap_drop"] == ["ALL"]
        assert "privileged" not in service
    assert services["web"]["ports"] == ["127.0.0.1:8000:8000"]
    assert "ports" not in services["postgres"]


def test_compose_holds_no_secret(compose: dict[str, Any]) -> None:
    """The password comes from outside, and its absence stops the start."""
    given = compose["services"]["postgres"]["environment"]["POSTGRES_PASSWORD"]
    assert given == "${POSTGRES_PASSWORD:?set it}"
