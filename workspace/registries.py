"""The package registries that set-up may read: their hosts, and which paths of them.

In: the names in policy's `setup.network`. Out: rules for the proxy. Known hosts stand here, in
code: policy chooses among registries, it cannot add one.
"""

from collections.abc import Iterable, Mapping
from typing import Final, Literal, NamedTuple

from workspace.errors import WorkspaceRefusal


class RegistryUnknown(WorkspaceRefusal):
    """Policy names a registry that this server does not know."""


#: The names policy may use; an unknown one is refused there, with the nearest.
RegistryName = Literal["python", "npm", "go", "rust", "ruby"]


class Rule(NamedTuple):
    """What may be read of one host: paths that begin with one of these."""

    host: str
    prefixes: tuple[str, ...]


#: Hosts as the registries' own documentation and clients name them (2026-11).
REGISTRIES: Final[Mapping[str, tuple[Rule, ...]]] = {
    "python": (
        Rule("pypi.org", ("/simple/", "/pypi/")),
        Rule("files.pythonhosted.org", ("/packages/",)),
    ),
    "npm": (Rule("registry.npmjs.org", ("/",)),),
    "go": (Rule("proxy.golang.org", ("/",)), Rule("sum.golang.org", ("/",))),
    "rust": (Rule("index.crates.io", ("/",)), Rule("static.crates.io", ("/crates/",))),
    "ruby": (Rule("rubygems.org", ("/",)), Rule("index.rubygems.org", ("/",))),
}


def rules_of(names: Iterable[str]) -> tuple[Rule, ...]:
    """Return the rules of the named registries.

    Raises:
        RegistryUnknown: A name is not in `REGISTRIES`; the message lists those that are.
    """
    found: list[Rule] = []
    for name in names:
        if name not in REGISTRIES:
            known = ", ".join(REGISTRIES)
            raise RegistryUnknown(f"setup.network names {name}; known registries are {known}")
        found += REGISTRIES[name]
    return tuple(found)
