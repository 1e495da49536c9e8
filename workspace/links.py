"""Where symbolic links of a tree lead, decided on the tree itself.

In: the links of a tree with their targets. Out: those that lead out of it. Why: a link that leaves
the repository reads or writes somebody else's files on every machine that checks it out; and two
links that are harmless alone can leave together, so every link is followed through the others.
"""

from collections.abc import Mapping

_MOST_STEPS = 40  # as Linux: path_resolution(7), ELOOP


def escaping_links(links: Mapping[bytes, bytes]) -> frozenset[bytes]:
    """Return the links whose target lies outside the tree, in `.git`, or cannot be resolved.

    Args:
        links: path → target, both raw.
    """
    return frozenset(path for path in links if _escapes(path, links))


def _escapes(path: bytes, links: Mapping[bytes, bytes]) -> bool:
    """Follow one link, component by component, the way a kernel would."""
    todo = [*reversed(path.split(b"/"))]
    done: list[bytes] = []
    steps = 0
    while todo:
        part = todo.pop()
        if part in {b"", b"."}:
            continue
        if part == b"..":
            if not done:
                return True
            done.pop()
            continue
        done.append(part)
        target = links.get(b"/".join(done))
        if part.lower() == b".git" or (target is not None and target.startswith(b"/")):
            return True
        if target is not None:
            steps += 1
            if steps > _MOST_STEPS:
                return True
            done.pop()
            todo.extend(reversed(target.split(b"/")))
    return False
