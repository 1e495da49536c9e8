"""Webhook deliveries as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from evals.loopback.shapes.users import moment
from evals.loopback.state import Json

if TYPE_CHECKING:
    from evals.loopback.deliveries import Delivery


def delivery_item(record: Delivery) -> Json:
    """A `hook-delivery-item`."""
    return {
        "id": record.id,
        "guid": record.guid,
        "delivered_at": moment(record.delivered_at),
        "redelivery": record.redelivery,
        "duration": record.duration,
        "status": record.status,
        "status_code": record.status_code,
        "event": record.event,
        "action": record.action,
        "installation_id": record.installation.id if record.installation else None,
        "repository_id": record.repository.id if record.repository else None,
        "throttled_at": None,
    }


def full_delivery(record: Delivery) -> Json:
    """A `hook-delivery`, with what was sent and what came back."""
    return {
        **delivery_item(record),
        "url": record.app.webhook_url or "",
        "request": {"headers": record.request_headers, "payload": json.loads(record.body)},
        "response": {"headers": record.response_headers, "payload": record.response_body},
    }
