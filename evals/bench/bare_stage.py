"""A stage without GitHub and model: PostgreSQL and the web role, for what needs no more.

In: nothing. Out: a `Stage` whose web role takes deliveries signed with the benchmark's secret.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from evals.bench.deliveries import SECRET
from evals.stage import PYTHON, Stage, free_port, plain_environment


@contextlib.asynccontextmanager
async def bare_stage() -> AsyncIterator[Stage]:
    """Open PostgreSQL, migrated, and the environment a role needs; no role is started."""
    with tempfile.TemporaryDirectory(prefix="ultracode-bench-") as place:
        folder = Path(place)
        world = Stage(folder=folder, environment=plain_environment(), web_port=free_port())
        try:
            database = await world.announce("database", *PYTHON, "evals.database", f"{folder}/pg")
            key = folder / "app.pem"
            key.write_bytes(private_key())
            world.environment |= {
                "DATABASE_URL": database["url"],
                "GITHUB_APP_ID": "1",
                "GITHUB_PRIVATE_KEY_PATH": str(key),
                "GITHUB_WEBHOOK_SECRET": SECRET,
                "ULTRACODE_DATA_DIR": str(folder / "data"),
            }
            yield world
        finally:
            await world.close()


def private_key() -> bytes:
    """Return a fresh RSA key as an App has one."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
