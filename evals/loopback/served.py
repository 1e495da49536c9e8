"""What is served: the application, and the layers that a story may want to speak to."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import FastAPI
from starlette.types import ASGIApp

from evals.loopback.faults import Misbehaving
from evals.loopback.journal import Journal
from evals.loopback.limits import Limits


@dataclass(frozen=True)
class Served:
    """One loopback GitHub's application and layers."""

    app: FastAPI
    application: ASGIApp
    misbehaving: Misbehaving
    journal: Journal
    limits: Limits
