"""The small environment every command starts with: the same everywhere, nothing of the bot's."""

PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"


def fixed_environment(*, home: str) -> dict[str, str]:
    """What a command sees before `Job.env`: fixed search path, UTF-8 locale and UTC."""
    return {"PATH": PATH, "HOME": home, "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "TZ": "UTC"}
