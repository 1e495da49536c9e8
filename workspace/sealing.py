"""Installed dependencies as a folder that nothing changes any more, and the digest of it.

In: a folder that set-up has filled. Out: the same files, read-only, with a seal over them. Why:
what suites ran with is part of what determined them, whoever installed it and wherever.
"""

import contextlib
import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson

from workspace.contracts import Sha256
from workspace.digest import canonical_digest
from workspace.environment import FALLBACK
from workspace.errors import WorkspaceRefusal


class SetupFailed(WorkspaceRefusal):
    """The set-up command did not end well; the message is for people, `log` is its output."""

    def __init__(self, sentence: str, log: bytes = b"") -> None:
        """Keep the end of the output beside the sentence."""
        super().__init__(sentence)
        self.log = log


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedDependencies:
    """What set-up installed; without a set-up, only what every suite has."""

    folder: Path
    """On the host; suites see it read-only at /deps."""
    seal: Sha256 | None
    """Over the key and the content: equal seals mean equal files, compiled ones aside.

    None without a set-up.
    """
    importable: tuple[str, ...]
    """Top-level Python modules among them, so that a candidate's new module cannot hide one."""

    @property
    def has_node_modules(self) -> bool:
        """Whether there are packages for Node."""
        return (self.folder / "node_modules").is_dir()

    @property
    def node_packages(self) -> list[str]:
        """What lies in `node_modules`: `name`, or `@scope/name`."""
        home = self.folder / "node_modules"
        found = [entry.name for entry in home.iterdir() if not entry.name.startswith("@")]
        found += [f"{entry.parent.name}/{entry.name}" for entry in home.glob("@*/*")]
        return sorted(found)


def lay_fallback(deps: Path) -> None:
    """Put what every suite has into an empty folder."""
    folder = deps / FALLBACK.name
    folder.mkdir(mode=0o755)
    python = folder / "python"
    python.write_text('#!/bin/sh\nexec python3 "$@"\n')
    python.chmod(0o555)


def load_none(home: Path) -> SealedDependencies:
    """Return what suites have without a set-up."""
    if not home.exists():
        fresh = home.with_name(f".{home.name}.{secrets.token_hex(6)}")
        fresh.mkdir(parents=True, mode=0o755)
        lay_fallback(fresh)
        with contextlib.suppress(OSError):  # another was faster: its folder is the same
            fresh.rename(home)
        shutil.rmtree(fresh, ignore_errors=True)
    return SealedDependencies(folder=home, seal=None, importable=())


def seal_folder(staging: Path, home: Path) -> None:
    """Make the dependencies read-only, note their seal, and move them to where they stay."""
    deps = staging / "deps"
    content = _content_digest(deps)
    seal = {
        "seal": canonical_digest({"key": home.name, "content": content}),
        "importable": _importable(deps / "python"),
    }
    shutil.rmtree(staging / "inputs")
    shutil.rmtree(home, ignore_errors=True)
    (staging / "seal.json").write_bytes(orjson.dumps(seal))
    staging.rename(home)


def load_sealed(home: Path) -> SealedDependencies:
    """Return what was sealed here, and note that it is in use."""
    os.utime(home / "seal.json")
    seal = orjson.loads((home / "seal.json").read_bytes())
    return SealedDependencies(
        folder=home / "deps", seal=seal["seal"], importable=tuple(seal["importable"])
    )


def _content_digest(folder: Path) -> Sha256:
    """Return a digest over names, kinds, executable bits and contents; makes all of it read-only.

    Compiled Python is left out: its bytes differ between compilations of one source.
    """
    facts: dict[str, list[str]] = {}
    for path, status in _walk(folder):
        relative = path.relative_to(folder)
        if relative.suffix == ".pyc" and stat.S_ISREG(status.st_mode):
            path.chmod(0o444)
        elif stat.S_ISLNK(status.st_mode):
            facts[_name(relative)] = ["link", os.fsencode(path.readlink()).hex()]
        elif stat.S_ISREG(status.st_mode):
            executable = bool(status.st_mode & 0o111)
            path.chmod(0o555 if executable else 0o444)
            facts[_name(relative)] = ["program" if executable else "file", _file_digest(path)]
        else:
            raise SetupFailed(f"set-up left a special file: {_name(relative)}")
    return canonical_digest(facts)


def _walk(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    for parent, folders, files in os.walk(folder):
        links = [name for name in folders if Path(parent, name).is_symlink()]
        for name in sorted([*files, *links]):
            path = Path(parent, name)
            yield path, path.lstat()
        Path(parent).chmod(0o755)


def _name(relative: Path) -> str:
    return os.fsencode(relative).decode("utf-8", "backslashreplace")


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _importable(folder: Path) -> list[str]:
    names = set()
    with contextlib.suppress(FileNotFoundError):
        for entry in os.scandir(folder):
            if entry.is_dir() or entry.name.endswith((".py", ".so")):
                names.add(entry.name.split(".", 1)[0])
    return sorted(name for name in names - {"bin", "__pycache__"} if name.isidentifier())
