from __future__ import annotations

import subprocess
import sys

CHEAP = (
    "briefs", "budget", "conversation", "guidance", "material", "prices", "prompts", "schema",
    "usage",
)  # fmt: skip


def test_what_others_need_does_not_import_agno() -> None:
    """Briefs, budgets and prompts can be used without the seconds that Agno's imports cost."""
    modules = ", ".join(f"bot.agents.{name}" for name in CHEAP)
    code = f"import sys, {modules}; print('agno' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "False"
