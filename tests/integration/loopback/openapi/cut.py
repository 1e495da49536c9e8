"""Cuts GitHub's OpenAPI description down to what the loopback GitHub serves.

In: the folder where `npm install @octokit/openapi @octokit/openapi-webhooks` put its packages. Out:
`github.json.gz` beside this file: the schema of every answer and of every webhook payload, nothing
else, in JSON Schema's words (`nullable` becomes a type). Run it again when GitHub's description is
to be followed to a newer version: `python cut.py NODE_MODULES`.
"""

import gzip
import json
import re
import sys
from pathlib import Path
from typing import Any

Json = dict[str, Any]
KEPT = Path(__file__).with_name("github.json.gz")
#: Chapters of the reference that the loopback GitHub has a face for.
CHAPTERS = re.compile(
    r"^/(app|app/.*|apps/\{app_slug\}|installation/.*|meta|rate_limit|user|users/\{username\}"
    r"|user/\{account_id\}|user/installations|user/repos|app-manifests/.*"
    r"|users/\{username\}/installation|orgs/\{org\}/installation"
    r"|repos/\{owner\}/\{repo\}"
    r"(/(installation|branches|check-runs|check-suites|collaborators|commits|compare|contents|forks"
    r"|git|hooks|issues|labels|pulls|rules|rulesets|statuses|teams|transfer)(/.*)?)?)$"
)
EVENTS = re.compile(
    r"^(check-run|check-suite|installation|installation-repositories|issue-comment|issues"
    r"|pull-request|pull-request-review|pull-request-review-comment|pull-request-review-thread"
    r"|push|repository|status)(-[a-z-]+)?$"
)
NOISE = {"description", "example", "examples", "externalDocs", "format", "title", "deprecated"}


def main() -> None:
    """Write the cut description."""
    modules = Path(sys.argv[1]) / "@octokit"
    api = json.loads((modules / "openapi/generated/api.github.com.json").read_text())
    hooks = json.loads((modules / "openapi-webhooks/generated/api.github.com.json").read_text())
    kept = {
        "operations": operations(api),
        "events": events(hooks),
        "api": schemas(api, operations(api)),
        "webhooks": schemas(hooks, events(hooks)),
    }
    raw = json.dumps(kept, sort_keys=True, separators=(",", ":")).encode()
    KEPT.write_bytes(gzip.compress(raw, compresslevel=9, mtime=0))
    print(f"{len(raw)} bytes, {KEPT.stat().st_size} compressed")  # noqa: T201 - a command line


def operations(api: Json) -> Json:
    """`GET /path` and status to the schema of the answer; null where there is no body."""
    found: Json = {}
    for path, methods in api["paths"].items():
        if CHAPTERS.match(path):
            for method, operation in methods.items():
                answers = operation["responses"]
                found[f"{method.upper()} {path}"] = {
                    status: answer_schema(api, answer) for status, answer in answers.items()
                }
    return found


def answer_schema(api: Json, answer: Json) -> Json | None:
    """The JSON schema of one answer."""
    if "$ref" in answer:
        answer = api["components"]["responses"][answer["$ref"].rsplit("/", 1)[1]]
    content = answer.get("content", {})
    body = content.get("application/json") or content.get("application/vnd.github.object")
    return clean(body["schema"]) if body else None


def events(hooks: Json) -> Json:
    """Event and action to the schema of its payload."""
    found: Json = {}
    for name, item in hooks["webhooks"].items():
        if EVENTS.match(name):
            content = item["post"]["requestBody"]["content"]["application/json"]
            found[name] = clean(content["schema"])
    return found


def schemas(source: Json, used: Json) -> Json:
    """Every component that the used schemas lead to."""
    known = source["components"]["schemas"]
    kept: Json = {}
    waiting = names(used)
    while waiting:
        name = waiting.pop()
        if name not in kept:
            kept[name] = clean(known[name])
            waiting |= names(kept[name])
    return kept


def names(schema: Any) -> set[str]:
    """The components a schema refers to."""
    return set(re.findall(r'"\$ref": "#/\$defs/([^"/]+)"', json.dumps(schema)))


def clean(schema: Any) -> Any:
    """A schema without prose, `nullable` said as JSON Schema says it, references made local."""
    if isinstance(schema, list):
        return [clean(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema and isinstance(schema["$ref"], str):
        return {"$ref": f"#/$defs/{schema['$ref'].rsplit('/', 1)[1]}"}
    if [part.get("title") for part in schema.get("allOf", [])] == ["Simple User", "Enterprise"]:
        # an installation's account is one or the other; nobody is both
        schema = {**schema, "anyOf": schema["allOf"], "allOf": []}
    kept = {
        key: properties(value) if key == "properties" else clean(value)
        for key, value in schema.items()
        if value != [] and key not in NOISE and key != "nullable" and not key.startswith("x-")
    }
    if not schema.get("nullable"):
        return kept
    if "enum" in kept and None not in kept["enum"]:
        kept["enum"] = [*kept["enum"], None]
    return {"anyOf": [kept, {"type": "null"}]}


def properties(fields: Json) -> Json:
    """Fields may be called like the noise."""
    return {name: clean(schema) for name, schema in fields.items()}


if __name__ == "__main__":
    main()
