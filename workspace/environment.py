"""The fixed environment of suites and set-up, and what the tools in it are.

In: nothing of the host's environment, and a suite's command. Out: the variables a suite sees, and a
fingerprint of the programs it names, measured inside the sandbox. Both enter the run key, so
neither holds a path, a user or a time of this host.
"""

import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from workspace.sandbox.backend import DEPS, OUT, Job, Limits, Sandbox, SandboxError

JUNIT_NAME: Final = "junit.xml"
#: 1980-01-01, the earliest time a ZIP archive can hold.
SOURCE_DATE_EPOCH: Final = "315532800"

_SYSTEM_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
#: Last on the path: a `python` for systems, such as Debian's, that only have `python3`.
FALLBACK: Final = DEPS / ".fallback"
_PATH: Final = ":".join(
    (f"{DEPS}/bin", f"{DEPS}/python/bin", f"{DEPS}/node_modules/.bin", _SYSTEM_PATH, str(FALLBACK))
)
_FIXED: Final[Mapping[str, str]] = {
    "CI": "1",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "NO_COLOR": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONNOUSERSITE": "1",
    "SOURCE_DATE_EPOCH": SOURCE_DATE_EPOCH,
    "TZ": "UTC",
}
_PROBE: Final = """
for name in "$@"; do
  path=$(command -v -- "$name") || continue
  case $path in /*) ;; *) continue ;; esac
  [ -f "$path" ] || continue
  printf '%s %s\\n' "$(sha256sum < "$path" | cut -c1-64)" "$name"
done
release=/usr/lib/os-release
[ ! -f $release ] || printf '%s os-release\\n' "$(sha256sum < $release | cut -c1-64)"
"""


def suite_environment() -> dict[str, str]:
    """Return the variables a suite sees; the sandbox adds HOME and nothing of the host's."""
    return {
        **_FIXED,
        "NODE_PATH": f"{DEPS}/node_modules",
        "PATH": _PATH,
        "PYTHONPATH": f"{DEPS}/python",
        "ULTRACODE_DEPS": str(DEPS),
        "ULTRACODE_JUNIT": f"{OUT}/{JUNIT_NAME}",
    }


def setup_environment() -> dict[str, str]:
    """Return the variables the set-up command sees."""
    return {
        **_FIXED,
        "PATH": _PATH,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_INPUT": "1",
        "PIP_TARGET": f"{DEPS}/python",
        "PYTHONPATH": f"{DEPS}/python",
        "ULTRACODE_DEPS": str(DEPS),
    }


async def measure_toolchain(
    sandbox: Sandbox, empty_folder: Path, commands: Iterable[str], *, image: str | None
) -> dict[str, dict[str, str]]:
    """Return, for each command, the SHA-256 of every system program it names and of the shell.

    Measured in the sandbox, where the suite will run, with nothing of the repository present.
    Programs that set-up installed are not here: the dependency seal covers them.

    Raises:
        SandboxError: The sandbox failed, or holds no shell to ask.
    """
    wanted = {
        command: {"sh", "python3", *filter(_could_be_program, command_words(command))}
        for command in commands
    }
    names = sorted(set().union(*wanted.values()))
    outcome = await sandbox.run(
        Job(
            command=("/bin/sh", "-c", _PROBE, "probe", *names),
            workspace=empty_folder,
            read_only=True,
            env={**_FIXED, "PATH": _SYSTEM_PATH},
            image=image,
            limits=Limits(wall_seconds=60),
        )
    )
    if outcome.termination != "exit" or outcome.exit_code != 0:
        raise SandboxError(f"the toolchain could not be measured: {outcome.output[-300:]!r}")
    found = {}
    for line in outcome.output.decode().splitlines():
        digest, _, name = line.partition(" ")
        found[name] = digest
    return {
        command: {name: found[name] for name in sorted(names | {"os-release"}) if name in found}
        for command, names in wanted.items()
    }


def command_words(command: str) -> list[str]:
    """Return the words of a shell command, operators apart; a rough reading, never executed."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        return list(lexer)
    except ValueError:
        return command.split()


def _could_be_program(word: str) -> bool:
    bare = word.replace("-", "").replace(".", "").replace("+", "").replace("_", "")
    return not word.startswith("-") and bare.isascii() and bare.isalnum()
