"""The names under which jobs stand in the database.

Why: the web role writes jobs by SQL and does without procrastinate (bot/store/inbox.py); the worker
takes them out by the same names (bot/queue.py).
"""

from typing import Final

#: Short jobs that must not wait behind long ones: deliveries, clean-up, gate and promotion.
QUICK: Final = "quick"
#: Jobs of runs whose agents and suites work, for minutes.
WORK: Final = "work"

HANDLE_DELIVERY: Final = "handle_delivery"
ADVANCE_RUN: Final = "advance_run"
CLEAN_UP_RUN: Final = "clean_up_run"
