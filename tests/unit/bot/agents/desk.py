"""In-memory tools for tests of agents: real methods with docstrings, as a workspace has them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Desk:
    """A workspace that is a dictionary, and writes down what was done to it."""

    workspace_id: str = "desk"
    loan: str = "first"
    files: dict[str, str] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    breaks: Exception | None = None

    async def read_file(self, path: str, start_line: int = 1, line_count: int = 400) -> str:
        """Read lines of one file."""
        self.log.append(f"read {path} {start_line} {line_count}")
        if self.breaks:
            raise self.breaks
        return self.files.get(path, f"There is no file {path}.")

    async def list_files(self, pattern: str = "**") -> str:
        """List the files whose path matches a glob."""
        return "\n".join(self.files)

    async def search(self, text: str, pattern: str = "**") -> str:
        """Find a literal text in the files whose path matches a glob, with line numbers."""
        return "\n".join(path for path, content in self.files.items() if text in content)

    async def edit_file(self, path: str, old: str, new: str) -> str:
        """Replace one exact, unique occurrence of `old` by `new`."""
        self.log.append(f"edit {path}")
        self.files[path] = self.files[path].replace(old, new)
        return "Done."

    async def write_file(self, path: str, content: str) -> str:
        """Create or overwrite a file."""
        self.log.append(f"write {path}")
        self.files[path] = content
        return "Done."

    async def move_file(self, source: str, destination: str) -> str:
        """Move a file within the scope."""
        self.files[destination] = self.files.pop(source)
        return "Done."

    async def delete_file(self, path: str) -> str:
        """Delete a file within the scope."""
        del self.files[path]
        return "Done."

    async def run_command(self, command: str, timeout_seconds: int = 120) -> str:
        """Run a shell command in the sandbox, in the workspace."""
        self.log.append(f"run {command}")
        return "exit code 0"

    async def run_suite(self, suite_id: str) -> str:
        """Run one of the repository's suites in the workspace as it stands."""
        return "passed"
