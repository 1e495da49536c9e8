"""A repository's own rules. In: the bytes of `.github/ultracode.yml`. Out: a `Policy`, or why not.

Why here: the file is written by people and read by a program that acts for them, so every mistake
is answered with its line and the nearest right word, and nothing in it is guessed. The defaults of
all keys stand here, once. Where a repository has no file, `bot.policy_proposal` writes one to copy.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)
from wcmatch import glob

from bot.policy_file import PolicyError, PolicyProblem, load_strict_yaml, validated
from workspace.contracts import (
    SandboxLimits,
    Setup,
    Sha256,
    Suite,
    SuiteId,
    WriteRules,
)
from workspace.registries import RegistryName

__all__ = ["POLICY_PATH", "Policy", "PolicyError", "PolicyProblem", "parse_policy", "policy_digest"]

POLICY_PATH: Final = ".github/ultracode.yml"
SCHEMA_FILE: Final = Path(__file__).with_name("policy.schema.json")

_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_BYTES: Final = {"KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}
_GLOB_FLAGS: Final = glob.GLOBSTAR | glob.DOTGLOB | glob.CASE


def _quantity(units: Mapping[str, int], lowest: str, highest: str) -> Callable[[object], object]:
    pattern = re.compile(rf"([0-9]{{1,9}})({'|'.join(units)})")

    def amount(text: str) -> int | None:
        found = pattern.fullmatch(text)
        return int(found[1]) * units[found[2]] if found else None

    def parse(value: object) -> object:
        size = amount(value) if isinstance(value, str) else None
        if size is None:
            return _refuse(f"give a number with its unit ({', '.join(units)}), like {highest}")
        if not (amount(lowest) or 0) <= size <= (amount(highest) or 0):
            return _refuse(f"give between {lowest} and {highest}")
        return size

    return parse


def _refuse(sentence: str) -> object:
    raise ValueError(sentence)


def _parse_glob(value: object) -> object:
    if not isinstance(value, str) or not value:
        return _refuse("give a path pattern")
    if found := re.search(r"[\[\]{}!\\|()]|[^\x20-\U0010ffff]", value):
        return _refuse(f"a pattern is made of letters, `*`, `?` and `**`, not {found[0]!r}")
    segments = value.split("/")
    if any(part in ("", ".", "..") for part in segments):
        return _refuse("a pattern is relative to the root, without `.`, `..` or empty parts")
    if any("**" in part and part != "**" for part in segments) or segments.count("**") > 2:  # noqa: PLR2004 - the sentence says it
        return _refuse("`**` stands alone between slashes, at most twice in a pattern")
    return value


def _parse_path(value: object) -> object:
    if isinstance(value, str) and re.search(r"[*?]", value):
        return _refuse("name files, not patterns")
    return _parse_glob(value)


def _default(as_written: str, *, alias: str) -> Any:
    """Give a default as it would stand in the file."""
    return Field(as_written, alias=alias, validate_default=True)


_DURATION: Final = WithJsonSchema({"type": "string", "pattern": "^[0-9]{1,9}(s|m|h|d)$"})
_SIZE: Final = WithJsonSchema({"type": "string", "pattern": "^[0-9]{1,9}(KiB|MiB|GiB)$"})

SuiteSeconds = Annotated[int, BeforeValidator(_quantity(_SECONDS, "1s", "6h")), _DURATION]
ExpirySeconds = Annotated[int, BeforeValidator(_quantity(_SECONDS, "1m", "90d")), _DURATION]


def _refuse_nul(command: str) -> str:
    if "\0" in command:
        raise ValueError("a command cannot hold a NUL character")
    return command


RetentionSeconds = Annotated[int, BeforeValidator(_quantity(_SECONDS, "1d", "3650d")), _DURATION]
SizeBytes = Annotated[int, BeforeValidator(_quantity(_BYTES, "16MiB", "1024GiB")), _SIZE]
Pattern = Annotated[str, BeforeValidator(_parse_glob), StringConstraints(max_length=300)]
InputPath = Annotated[str, BeforeValidator(_parse_path), StringConstraints(max_length=300)]
Patterns = Annotated[tuple[Pattern, ...], Field(max_length=50)]
Command = Annotated[
    str,
    StringConstraints(min_length=1, max_length=4000, pattern=r"\S"),
    AfterValidator(_refuse_nul),
]
Level = Literal["write", "maintain", "admin"]


class _Section(BaseModel):
    """A mapping of the file: no key is ignored, no type is bent."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class SuitePolicy(_Section):
    """A named test command. A required suite runs always, another where its paths are touched."""

    run: Command
    required: bool = True
    timeout_seconds: SuiteSeconds = _default("10m", alias="timeout")
    repeat: int = Field(1, ge=1, le=5)
    paths: Patterns | None = Field(None, min_length=1)
    bases: Patterns | None = Field(None, min_length=1)

    @model_validator(mode="after")
    def _required_runs_always(self) -> Self:
        if self.required and self.paths is not None:
            raise ValueError("a required suite always runs: drop `paths` or say `required: false`")
        return self


class SetupPolicy(_Section):
    """How dependencies are prepared: it sees its input files and the named registries only."""

    run: Command
    inputs: Annotated[tuple[InputPath, ...], Field(max_length=50)] = ()
    network: Annotated[tuple[RegistryName, ...], Field(max_length=5)] = ()


class WritePolicy(_Section):
    """`deny` adds to the built-in denials, `allow` lifts them; a plan never can."""

    deny: Patterns = ()
    allow: Patterns = ()


class ReviewPolicy(_Section):
    """Who must approve, and what a change request does."""

    approvals: int = Field(1, ge=1, le=10)
    from_: Level = Field("write", alias="from")
    contributors_may_approve: Literal["auto", "never"] = "auto"
    on_changes_requested: Literal["revise", "cancel"] = "revise"
    expires_seconds: ExpirySeconds = _default("7d", alias="expires")


class RefreshPolicy(_Section):
    """Whether a waiting candidate is built anew as soon as its base moves."""

    when_behind: bool = False


class PublishPolicy(_Section):
    """Which rounds are pushed. A push starts the repository's own CI."""

    rounds: Literal["every", "passed", "on_go"] = "every"


class LimitsPolicy(_Section):
    """Ceilings of one run, and how many run at once. `cost` is in the operator's currency."""

    workers: int = Field(4, ge=1, le=4)
    rounds: int = Field(3, ge=1, le=3)
    minutes: int = Field(60, ge=1, le=1440)
    tokens: int = Field(2_000_000, ge=1000, le=1_000_000_000)
    cost: float | None = Field(None, gt=0, le=1_000_000)
    concurrent_runs: int = Field(2, ge=1, le=50)
    revisions: int = Field(3, ge=0, le=20)


class SandboxPolicy(_Section):
    """What one sandboxed command may use."""

    image: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][A-Za-z0-9._/:@-]*$")] | None = None
    memory_bytes: SizeBytes = _default("2GiB", alias="memory")
    cpus: float = Field(2, ge=0.1, le=64)
    disk_bytes: SizeBytes = _default("2GiB", alias="disk")


class Policy(_Section):
    """The whole file. What it does not say has the default written here."""

    version: Literal[1]
    requesters: Level = "write"
    label: Annotated[str, StringConstraints(min_length=1, max_length=50)] = "ultracode"
    bases: Patterns | None = Field(None, min_length=1)
    suites: Annotated[dict[SuiteId, SuitePolicy], Field(min_length=1, max_length=50)]
    setup: SetupPolicy | None = None
    writes: WritePolicy = Field(default_factory=WritePolicy)
    review: ReviewPolicy = Field(default_factory=ReviewPolicy)
    plan_approval: bool = False
    refresh: RefreshPolicy = Field(default_factory=RefreshPolicy)
    retention_seconds: RetentionSeconds = _default("30d", alias="retention")
    publish: PublishPolicy = Field(default_factory=PublishPolicy)
    limits: LimitsPolicy = Field(default_factory=LimitsPolicy)
    sandbox: SandboxPolicy = Field(default_factory=SandboxPolicy)

    @model_validator(mode="after")
    def _something_is_proved(self) -> Self:
        if not any(suite.required for suite in self.suites.values()):
            raise ValueError("at least one suite must be required, or a candidate proves nothing")
        return self

    def admits_base(self, base: str, *, default_branch: str) -> bool:
        """Whether a branch may be targeted; without `bases` only the default branch may."""
        if self.bases is None:
            return base == default_branch
        return _matches_any(self.bases, base)

    def required_suites(self, base: str) -> tuple[Suite, ...]:
        """Return the suites every candidate for this branch must pass, in the file's order."""
        return tuple(suite for suite in self._suites_of(base) if suite.required)

    def optional_suites(self, base: str) -> tuple[Suite, ...]:
        """Return the suites a plan may add for this branch, in the file's order."""
        return tuple(suite for suite in self._suites_of(base) if not suite.required)

    def suites_for(self, base: str) -> tuple[Suite, ...]:
        """Return required and optional suites for this branch, required ones first."""
        return self.required_suites(base) + self.optional_suites(base)

    def suites_touched(self, base: str, changed_paths: tuple[str, ...]) -> tuple[Suite, ...]:
        """Return the optional suites whose `paths` a change touches."""
        return tuple(
            suite
            for suite in self.optional_suites(base)
            if any(_matches_any(self.suites[suite.id].paths or (), path) for path in changed_paths)
        )

    def write_rules(self) -> WriteRules:
        """Return what the workshop may and may not let workers write."""
        return WriteRules(deny=self.writes.deny, allow=self.writes.allow)

    def setup_step(self) -> Setup | None:
        """Return how the workshop prepares dependencies, if at all."""
        if self.setup is None:
            return None
        return Setup(run=self.setup.run, inputs=self.setup.inputs, network=self.setup.network)

    def sandbox_limits(self) -> SandboxLimits:
        """Return the ceilings of one sandboxed command."""
        return SandboxLimits(
            memory_bytes=self.sandbox.memory_bytes,
            cpus=self.sandbox.cpus,
            disk_bytes=self.sandbox.disk_bytes,
            image=self.sandbox.image,
        )

    def _suites_of(self, base: str) -> tuple[Suite, ...]:
        return tuple(
            Suite(
                id=suite_id,
                run=suite.run,
                required=suite.required,
                timeout_seconds=suite.timeout_seconds,
                repeat=suite.repeat,
            )
            for suite_id, suite in self.suites.items()
            if suite.bases is None or _matches_any(suite.bases, base)
        )


def parse_policy(raw: bytes) -> Policy:
    """Read the file. Raises PolicyError with every problem, each with its line."""
    return validated(Policy, load_strict_yaml(raw))


def policy_digest(raw: bytes) -> Sha256:
    """Return the SHA-256 of the file as it stands in Git, so that anybody can recompute it."""
    return hashlib.sha256(raw).hexdigest()


def policy_schema() -> dict[str, Any]:
    """Return the JSON Schema of the file, for editors; `bot/policy.schema.json` is its copy."""
    schema = Policy.model_json_schema(by_alias=True)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Ultracode policy ({POLICY_PATH})",
        **{key: value for key, value in schema.items() if key != "title"},
    }


def write_schema() -> None:
    """Bring `bot/policy.schema.json` up to date: `python -m bot.policy`."""
    SCHEMA_FILE.write_text(json.dumps(policy_schema(), indent=2) + "\n", encoding="utf-8")


def _matches_any(patterns: tuple[str, ...], path: str) -> bool:
    return glob.globmatch(path, list(patterns), flags=_GLOB_FLAGS)


if __name__ == "__main__":
    write_schema()
