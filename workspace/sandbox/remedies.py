"""How to get what a sandbox is missing here: advice for the operator.

In: what the kernel or a tool said when something failed. Out: sentences with the setting to change.
"""

_CGROUPS = (
    "Limits over all processes of a command need control groups of one's own: run the bot as root, "
    "or as a systemd service with `Delegate=yes`, or in a login session that has `systemd-run`."
)
_NAMESPACES = (
    "This user may not make user namespaces: allow them"
    " (`sysctl kernel.unprivileged_userns_clone=1` on older Debian,"
    " `sysctl user.max_user_namespaces=10000` where it is 0, an AppArmor profile for bwrap on"
    " Ubuntu 24.04)."
)
_CONTAINER = (
    "Inside a container, start that one with `--security-opt seccomp=unconfined --security-opt"
    " systempaths=unconfined`, and CAP_SYS_ADMIN where the bot is root in it (podman:"
    " `--security-opt unmask=ALL`), or let the bot use sibling containers"
    " (ULTRACODE_SANDBOX=container)."
)
_SECCOMP = "The system call filter needs libseccomp: `apt install libseccomp2`."
_SIGNS = (
    (("no memory", "no pids", "no cpu", "is not delegated", "refuses +"), _CGROUPS),
    (("namespace", "unshare", "uid map", "uid_map"), _NAMESPACES),
    (("mount", "pivot_root", "Can't", "unshare: Operation not permitted"), _CONTAINER),
    (("libseccomp",), _SECCOMP),
)


def remedy_message(*said: str) -> str:
    """Advice for what was said; empty when there is none."""
    advice = [
        sentence
        for signs, sentence in _SIGNS
        if any(sign in text for sign in signs for text in said)
    ]
    return " ".join(advice)
