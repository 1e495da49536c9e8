"""The agents: a brief and tools go in, a validated answer with its token usage comes out.

One module per role (`planner`, `worker`, `reducer`, `reviewer`), each with the functions the
workflow calls; `run` holds what they share. Importing this package is cheap; `run`, `model`,
`toolkit` and the roles import Agno, which costs seconds, and belong in worker processes only.
"""
