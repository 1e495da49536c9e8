"""What was proved, for people: suites, tests, files, digests. Shared by all that shows a round."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from wcmatch import glob

from bot.github.escape import code, code_cell, fence, words
from bot.github.messages.parts import (
    bullets,
    code_list,
    details,
    duration,
    paragraphs,
    sha,
    table,
)
from bot.view import RoundView
from workspace.contracts import (
    ChangedFile,
    EvidenceManifest,
    SuiteResult,
    TestOutcome,
    TestReport,
    shown_path,
)

PASSED, FAILED, OPEN = "✅", "❌", "…"
SHOWN_FILES: Final = 40

#: What GitHub folds in a diff by its name alone (github-linguist, "generated" and "vendored").
_COLLAPSED: Final = [
    "**/*.{lock,lockb,min.js,min.css,map,pb.go,snap}",
    "**/{package-lock.json,npm-shrinkwrap.json,pnpm-lock.yaml,yarn.lock,go.sum,Cargo.lock}",
    "**/{node_modules,vendor,dist,third_party,Godeps}/**",
]
#: Build tools whose one file describes the product and its test run alike: a part of it cannot be
#: taken from the base, so a reader is told.
_BUILD_FILES: Final = [
    "**/{pom.xml,build.gradle,build.gradle.kts,settings.gradle,settings.gradle.kts,build.sbt}",
    "**/{Cargo.toml,CMakeLists.txt,Package.swift,mix.exs,build.zig}",
    "**/*.{csproj,fsproj,vbproj,cmake,cabal,bzl}",
    "**/{BUILD,BUILD.bazel,WORKSPACE,MODULE.bazel,Directory.Build.props,Directory.Build.targets}",
]
_COLLAPSED_FLAGS: Final = glob.GLOBSTAR | glob.DOTGLOB | glob.BRACE


def mark(passed: bool | None) -> str:  # noqa: FBT001 - a verdict is what this is about
    """A verdict as a sign; None while it is open."""
    return OPEN if passed is None else PASSED if passed else FAILED


def outcome_counts(suite: SuiteResult) -> str:
    """`12 passed, 1 failed`; the exit code where there is no report of single tests."""
    kinds = ("passed", "failed", "error", "skipped")
    counted = [f"{suite.count(kind)} {kind}" for kind in kinds if suite.count(kind)]
    if counted:
        return ", ".join(counted)
    return f"exit {suite.exit_code}" if suite.termination == "exit" else suite.termination


def suites_line(report: TestReport | None) -> str:
    """All suites of a round, for one table cell."""
    if report is None:
        return OPEN
    return " · ".join(
        f"{mark(suite.passed)} {suite.suite_id} ({outcome_counts(suite)})"
        for suite in report.suites
    )


def suites_table(report: TestReport) -> str:
    """What ran, and how to name it exactly."""
    head = ("Suite", "", "Outcomes", "Exit", "Time", "Result digest")
    return table(head, [_suite_row(suite) for suite in report.suites])


def _suite_row(suite: SuiteResult) -> tuple[str, ...]:
    required = "" if suite.required else " (optional)"
    exit_code = suite.termination if suite.exit_code is None else str(suite.exit_code)
    return (
        f"{suite.suite_id}{required}",
        mark(suite.passed),
        outcome_counts(suite),
        exit_code,
        duration(suite.duration_seconds),
        sha(suite.result_digest, 16),
    )


def suite_remarks(suite: SuiteResult) -> Iterator[str]:
    """What a reader should know of a suite beyond its outcomes, a line each."""
    if suite.reason:
        yield f"**{suite.suite_id}** does not pass: {words(suite.reason, 500)}"
    if suite.flaky:
        yield f"**{suite.suite_id}** is flaky: its runs differ, which is never a pass."
    if suite.base_passed is False:
        yield f"**{suite.suite_id}** was already red on the base."
    if suite.canary == "not_placed":
        yield (
            f"**{suite.suite_id}** could not be checked with a planted failing test: "
            "code under test that forges its report would not be noticed."
        )
    for title, names in (
        ("now passing", suite.fail_to_pass),
        ("❌ broken", suite.pass_to_fail),
        ("❌ missing", suite.missing),
        ("new", suite.new),
        ("⚠️ weakened, their base version fails", suite.weakened),
    ):
        if names:
            yield f"**{suite.suite_id}**, {title} ({len(names):,}): {code_list(names, 5)}"


def sandbox_warning(report: TestReport | None) -> str:
    """What must be said wherever evidence without isolation is shown."""
    if report is None or report.sandbox != "local":
        return ""
    return "⚠️ The suites ran **without a sandbox** on the operator's machine."


def report_remarks(report: TestReport | None) -> str:
    """All remarks on a round's suites, as a list."""
    if report is None:
        return ""
    return bullets([remark for suite in report.suites for remark in suite_remarks(suite)], 20)


# --- files --------------------------------------------------------------------------------------


def path_code(path: str) -> str:
    """A path of the repository, exactly, as inline code."""
    return code(shown_path(path))


def files_list(files: Sequence[ChangedFile]) -> str:
    """The changed files with what happened to them."""
    return bullets([f"{path_code(file.path)} {file.kind}" for file in files], SHOWN_FILES)


def collapsed_note(files: Sequence[ChangedFile]) -> str:
    """The files GitHub folds in the diff, so that nobody overlooks them."""
    folded = [shown_path(file.path) for file in files if _is_collapsed(file.path)]
    if not folded:
        return ""
    return f"GitHub folds these in the diff; open them too: {code_list(folded)}."


def build_files_note(files: Sequence[ChangedFile]) -> str:
    """The changed files that build the product and run its tests, and are the candidate's."""
    building = [shown_path(file.path) for file in files if _is_build_file(file.path)]
    if not building:
        return ""
    return f"These also say which tests run, and are the candidate's own: {code_list(building)}."


def _is_build_file(path: str) -> bool:
    return glob.globmatch(path, _BUILD_FILES, flags=_COLLAPSED_FLAGS | glob.IGNORECASE)


def _is_collapsed(path: str) -> bool:
    return glob.globmatch(path, _COLLAPSED, flags=_COLLAPSED_FLAGS)


def refused_lines(shown: RoundView) -> list[str]:
    """The paths that were refused in a round, each with why."""
    return [
        f"{path_code(path.path)}: {words(path.reason, 300)}"
        for worker in shown.workers
        for path in worker.record.refused
    ]


def warning_lines(shown: RoundView) -> list[str]:
    """What the workshop warns of, and what it left out as ignored."""
    lines = [words(text, 300) for worker in shown.workers for text in worker.record.warnings]
    ignored = [path for worker in shown.workers for path in worker.record.ignored]
    if ignored:
        lines.append(f"Left out, since `.gitignore` says so: {code_list(ignored, 10)}")
    return lines


# --- digests ------------------------------------------------------------------------------------


def digests(shown: RoundView) -> list[tuple[str, str]]:
    """Everything a reader can recompute, by name."""
    found: list[tuple[str, str]] = []
    if shown.candidate:
        found += [
            ("candidate", shown.candidate.sha),
            ("original base", shown.candidate.original_base_sha),
            ("diff digest", shown.candidate.diff_digest),
        ]
    if shown.report:
        found.append(("test report digest", shown.report.digest))
    if shown.evidence:
        found += [(f"{name} digest", value) for name, value in shown.evidence.bindings.items()]
        found.append(("evidence digest", shown.evidence.digest))
    return found


def digests_table(shown: RoundView) -> str:
    """The digests in full."""
    return table(("", ""), [(name, code_cell(value)) for name, value in digests(shown)])


def suite_log(evidence: EvidenceManifest | None, suite_id: str) -> str:
    """One suite's log out of the evidence's excerpts, or nothing."""
    if evidence is None:
        return ""
    _, found, rest = f"\n{evidence.test_log_text}".partition(f"\n--- {suite_id} ---\n")
    return rest.split("\n--- ", 1)[0] if found else ""


def failing_tests(tests: Sequence[TestOutcome]) -> str:
    """Failing tests with what they said."""
    failing = [test for test in tests if test.outcome in {"failed", "error"}]
    shown = [
        paragraphs(f"**{code(test.key)}** {test.outcome}", fence(test.message, 2_000))
        for test in failing[:20]
    ]
    if len(failing) > len(shown):
        shown.append(f"… and {len(failing) - len(shown)} more.")
    return paragraphs(*shown)


def log_details(log: str, limit_bytes: int) -> str:
    """A log, folded; its end counts most."""
    return details("Log", fence(log, limit_bytes, tail=True)) if log else ""
