"""The people of every loopback GitHub: one for each thing somebody may be allowed to do."""

from __future__ import annotations

from dataclasses import dataclass, field

from evals.loopback.state import Account, Json, Role

CAST: tuple[tuple[str, str, str, Role], ...] = (
    ("admin", "ada", "Ada Admin", "admin"),
    ("writer", "wim", "Wim Writer", "write"),
    ("second_writer", "rosa", "Rosa Reviewer", "write"),
    ("reader", "rene", "Rene Reader", "read"),
    ("outsider", "otto", "Otto Outsider", "none"),
    ("triager", "tina", "Tina Triager", "triage"),
    ("maintainer", "mara", "Mara Maintainer", "maintain"),
)


@dataclass(frozen=True)
class Person:
    """Somebody with an account, a role in every repository here, and a token."""

    key: str
    account: Account
    role: Role
    token: str = field(repr=False)

    @property
    def login(self) -> str:
        """The name they go by."""
        return self.account.login

    @property
    def id(self) -> int:
        """The number that never changes."""
        return self.account.id

    def card(self) -> Json:
        """What another process needs to act as this person."""
        return {
            "role": self.key,
            "login": self.account.login,
            "id": self.account.id,
            "permission": self.role,
            "token": self.token,
        }
