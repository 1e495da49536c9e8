"""A model whose every answer is written down: the stage's stand-in for the model provider.

``async with running(parse_script(text)) as model`` serves it on loopback; ``python -m
evals.scripted_model --script FILE --port 0 --json`` runs it alone. The format of scripts is
described in ``script``.
"""

from evals.scripted_model.script import Script, ScriptError, load_script, parse_script
from evals.scripted_model.server import Asked, ScriptedModel, running

__all__ = [
    "Asked",
    "Script",
    "ScriptError",
    "ScriptedModel",
    "load_script",
    "parse_script",
    "running",
]
