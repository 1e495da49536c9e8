"""Every way into the running application, and what each is for: the table that its test walks.

In: an application. Out: its doors as `METHOD /path`, found by recursion through included routers,
mounts and hosts, not in the OpenAPI description, which leaves some out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from starlette.routing import WebSocketRoute

#: What answers with `--agentos` as it does without, and how it answers an empty request.
OWN: Final = {
    "POST /webhooks/github": 401,
    "GET /healthz": 200,
    "GET /readyz": 200,
    "GET /.well-known/ultracode-keys.json": 200,
    "GET /openapi.json": 200,
    "HEAD /openapi.json": 200,
    "ANY /": 404,  # nobody can sign in where there is no client secret
    "ANY /metrics": 401,
    "ANY /runs/{rest:path}": 404,
    "ANY /auth/{rest:path}": 404,
    "ANY /static/{rest:path}": 404,
}

#: AgentOS's doors that ours stand before.
SHADOWED: Final = {"GET /": "ANY /", "GET /metrics": "ANY /metrics"}

#: What may be read: how it answers the run's owner, and somebody else.
READ: Final = {
    "GET /config": (200, 200),
    "GET /workflows": (200, 200),
    "GET /workflows/{workflow_id}": (200, 200),
    "GET /workflows/{workflow_id}/runs": (200, 404),
    "GET /workflows/{workflow_id}/runs/{run_id}": (200, 404),
    "GET /sessions": (200, 200),
    "GET /sessions/{session_id}": (200, 404),
    "GET /sessions/{session_id}/runs": (200, 404),
    "GET /sessions/{session_id}/run-previews": (200, 404),
    "GET /sessions/{session_id}/runs/{run_id}": (200, 404),
    "GET /traces": (200, 200),
    "GET /traces/filter-schema": (200, 200),
    "GET /traces/{trace_id}": (200, 404),
    "GET /trace_session_stats": (200, 200),
    "POST /traces/search": (200, 200),
}

#: What AgentOS opens to `workflows:run` only, although it reads.
READ_BY_RUNNERS: Final = {
    "GET /workflows/{workflow_id}/runs",
    "GET /workflows/{workflow_id}/runs/{run_id}",
}

#: Everything else that AgentOS would serve, and does not.
REFUSED: Final = frozenset(
    """
    GET /health
    GET /info
    POST /agents/{agent_id}/runs
    POST /agents/{agent_id}/runs/{run_id}/cancel
    POST /agents/{agent_id}/runs/{run_id}/continue
    POST /agents/{agent_id}/runs/{run_id}/resume
    POST /agents/{agent_id}/sessions/{session_id}/fork
    POST /agents/{agent_id}/sessions/{session_id}/compact
    GET /agents
    GET /agents/{agent_id}
    GET /agents/{agent_id}/runs
    GET /agents/{agent_id}/runs/{run_id}
    GET /agents/{agent_id}/runs/{run_id}/checkpoints
    GET /agents/{agent_id}/runs/{run_id}/checkpoints/{message_index}
    POST /teams/{team_id}/runs
    POST /teams/{team_id}/runs/{run_id}/cancel
    POST /teams/{team_id}/runs/{run_id}/continue
    POST /teams/{team_id}/runs/{run_id}/resume
    POST /teams/{team_id}/sessions/{session_id}/fork
    GET /teams
    GET /teams/{team_id}
    GET /teams/{team_id}/runs
    GET /teams/{team_id}/runs/{run_id}
    GET /teams/{team_id}/runs/{run_id}/checkpoints
    GET /teams/{team_id}/runs/{run_id}/checkpoints/{message_index}
    POST /workflows/{workflow_id}/runs
    POST /workflows/{workflow_id}/runs/{run_id}/cancel
    POST /workflows/{workflow_id}/runs/{run_id}/continue
    POST /workflows/{workflow_id}/runs/{run_id}/resume
    WEBSOCKET /workflows/ws
    POST /sessions
    DELETE /sessions
    DELETE /sessions/{session_id}
    PATCH /sessions/{session_id}
    POST /sessions/{session_id}/rename
    GET /sessions/{session_id}/media/{storage_key:path}
    GET /memories
    POST /memories
    DELETE /memories
    GET /memories/{memory_id}
    PATCH /memories/{memory_id}
    DELETE /memories/{memory_id}
    GET /memory_topics
    GET /user_memory_stats
    POST /optimize-memories
    GET /learnings
    POST /learnings
    GET /learnings/users
    DELETE /learnings/users/{user_id}
    GET /learnings/{learning_id}
    PATCH /learnings/{learning_id}
    DELETE /learnings/{learning_id}
    GET /eval-runs
    POST /eval-runs
    PATCH /eval-runs/{eval_run_id}
    GET /eval-runs/{eval_run_id}
    DELETE /eval-runs
    POST /metrics/refresh
    GET /metrics/refresh/status
    GET /knowledge/config
    GET /knowledge/content
    POST /knowledge/content
    DELETE /knowledge/content
    POST /knowledge/remote-content
    GET /knowledge/content/{content_id}
    PATCH /knowledge/content/{content_id}
    DELETE /knowledge/content/{content_id}
    POST /knowledge/content/{content_id}/refresh
    GET /knowledge/content/{content_id}/status
    POST /knowledge/search
    GET /knowledge/{knowledge_id}/sources
    GET /knowledge/{knowledge_id}/sources/{source_id}/files
    POST /databases/all/migrate
    POST /databases/{db_id}/migrate
    GET /filesystem/files
    GET /filesystem/entries
    GET /filesystem/content
    GET /filesystem/search
    GET /schedules
    POST /schedules
    GET /schedules/{schedule_id}
    PATCH /schedules/{schedule_id}
    DELETE /schedules/{schedule_id}
    POST /schedules/{schedule_id}/enable
    POST /schedules/{schedule_id}/disable
    POST /schedules/{schedule_id}/trigger
    GET /schedules/{schedule_id}/runs
    GET /schedules/{schedule_id}/runs/{run_id}
    GET /approvals
    GET /approvals/count
    GET /approvals/{approval_id}
    GET /approvals/{approval_id}/status
    POST /approvals/{approval_id}/resolve
    DELETE /approvals/{approval_id}
    GET /service-accounts
    POST /service-accounts
    DELETE /service-accounts/{service_account_id}
    GET /registry
    """.strip()
    .replace("    ", "")
    .splitlines()
) | {
    f"{method} {path}"
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE")
    for path in ("/queue", "/queue/{path:path}", "/components", "/components/{path:path}")
}


def doors(routes: Iterable[Any], prefix: str = "") -> Iterator[str]:
    """Yield every door there is; one of a kind nobody thought of is yielded by its kind."""
    for route in routes:
        included = getattr(route, "original_router", None)
        path = f"{prefix}{getattr(route, 'path', '')}"
        inside = getattr(route, "routes", None)
        if included is not None:
            yield from doors(included.routes, f"{prefix}{route.include_context.prefix}")
        elif inside:
            yield from doors(inside, path)
        elif isinstance(route, WebSocketRoute):
            yield f"WEBSOCKET {path}"
        elif hasattr(route, "methods"):
            yield from (f"{method} {path}" for method in route.methods or ("ANY",))
        else:
            yield f"{type(route).__name__.upper()} {path}"
