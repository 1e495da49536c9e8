"""Commands that lead to another run, or explain one: revise, refresh, retry, verify.

In: who says so and the newest run of the issue. Out: the answer's text, empty where the run that
follows answers with its own status comment.
"""

from __future__ import annotations

from bot.advance import supersede
from bot.contracts import MAX_ROUNDS, Trigger, UserRef
from bot.errors import Refusal
from bot.feedback import cut
from bot.followup import RETESTABLE, RETRIABLE, REVISABLE_ENDS, FollowUp, plan_follow, start_follow
from bot.github import messages
from bot.live import LiveRun
from bot.live_run import open_run
from bot.run_pieces import RunPieces
from bot.services import Services
from bot.steps.review import final_result
from bot.store.fence import holding
from bot.store.runs import Claim, Run
from bot.store.signing_keys import KEYS_PATH
from bot.store.tables import PUSH_REFUSED, RunState
from bot.view import load_rounds, load_view
from webhooks.commands import Refresh, Revise
from workspace.contracts import Candidate, EvidenceManifest, TestReport


async def revise(
    services: Services, run: Run | None, command: Revise, *, who: UserRef, trigger: Trigger
) -> str:
    """Let a waiting candidate be revised with this feedback."""
    if not command.feedback.strip():
        return messages.empty_revision_message()
    next_ = FollowUp(kind="revision", trigger=trigger, who=who, feedback=cut([command.feedback]))
    sentence = f"{who.login} asked for a revision; it follows on the same branch."
    if run is not None and run.state in REVISABLE_ENDS:
        return await take_up(services, run, next_)
    return await replace_waiting(services, run, next_, sentence)


async def take_up(services: Services, run: Run, next_: FollowUp) -> str:
    """Let a run follow one that ended with a candidate, on its branch and pull request."""
    if await services.runs.is_forgotten(run.run_id):
        return messages.forgotten_message(run)
    candidate = await newest_candidate(services, run)
    if candidate is None or run.pull_number is None:
        return messages.nothing_waits_message(run)
    new = await plan_follow(services, run, candidate, next_)
    async with services.database.begin() as tx:
        await start_follow(services, new, next_, tx)
    return ""


async def newest_candidate(services: Services, run: Run) -> Candidate | None:
    """Return the candidate of the newest round that has one; an ended run may have no result."""
    pieces = RunPieces(services.pieces, run.run_id, run.epoch)
    made = [await pieces.load(f"candidate:{round}", Candidate) for round in range(MAX_ROUNDS)]
    return next((candidate for candidate in reversed(made) if candidate is not None), None)


async def refresh(
    services: Services, run: Run | None, _: Refresh, *, who: UserRef, trigger: Trigger
) -> str:
    """Build a waiting candidate anew on the base as it is now."""
    next_ = FollowUp(kind="refresh", trigger=trigger, who=who)
    sentence = f"{who.login} asked for a fresh candidate on the base as it is now; it follows."
    return await replace_waiting(services, run, next_, sentence)


async def retest(services: Services, run: Run, sha: str, *, who: UserRef, trigger: Trigger) -> str:
    """Judge a candidate once more: suites, evidence and envelope are new, reviews start over.

    `sha` is the commit whose check was pressed: an earlier round's is answered, not tested.
    """
    if run.state not in RETESTABLE:
        return messages.nothing_to_retest_message(run)
    if await services.runs.is_forgotten(run.run_id):
        return messages.forgotten_message(run)
    live = await look_at(services, run)
    candidate = await last_candidate(live)
    if candidate is None or candidate.sha != sha:
        return messages.earlier_check_message(run)
    next_ = FollowUp(kind="retest", trigger=trigger, who=who)
    if run.state is RunState.AWAITING_REVIEW:
        return await replace_waiting(services, run, next_, messages.retest_sentence(who))
    await start_follow(services, await plan_follow(services, run, candidate, next_), next_)
    return ""


async def last_candidate(live: LiveRun) -> Candidate | None:
    """Return the candidate of a run's last round."""
    result = await final_result(live)
    return await live.pieces.load(f"candidate:{result.round}", Candidate)


async def replace_waiting(
    services: Services, run: Run | None, next_: FollowUp, sentence: str
) -> str:
    """End a run that waits for a review, and let another follow it."""
    if run is None or run.state is not RunState.AWAITING_REVIEW:
        return messages.nothing_waits_message(run)
    claim = await services.runs.claim(run.run_id)
    if claim is None or claim.run.state is not RunState.AWAITING_REVIEW:
        return messages.nothing_waits_message(run)
    with holding(run.run_id, claim.epoch):
        await supersede(services, await open_run(services, claim), next_, sentence)
    return ""


async def retry(services: Services, run: Run | None, *, who: UserRef, trigger: Trigger) -> str:
    """Start an ended run anew without reading the issue again; decide a waiting one again."""
    if run is not None and run.state in {RunState.AWAITING_REVIEW, RunState.APPROVED}:
        await decide_again(services, run, who)
        return messages.deciding_again_message()
    if run is None or run.state not in RETRIABLE:
        return messages.nothing_to_retry_message(run)
    if "coding_request" not in run.request:
        raise Refusal(messages.nothing_to_retry_message(run))
    next_ = FollowUp(kind="retry", trigger=trigger, who=who)
    new = await plan_follow(services, run, None, next_)
    async with services.database.begin() as tx:
        await start_follow(services, new, next_, tx)
    return ""


async def decide_again(services: Services, run: Run, who: UserRef) -> None:
    """Let a waiting run look at the gate, and push again where GitHub refused it before."""
    async with services.database.begin() as tx:
        if run.state_reason == PUSH_REFUSED:
            await services.runs.transition(
                run.run_id,
                from_states={RunState.AWAITING_REVIEW},
                to_state=RunState.AWAITING_REVIEW,  # without its reason
                actor=f"github:{who.id}",
                tx=tx,
            )
        await services.queue.defer_advance(run.run_id, tx=tx)


async def verify(services: Services, run: Run | None, sha: str | None) -> str:
    """Recompute the chain of a run's candidate from the stored bytes, and say how it holds."""
    if run is None:
        return messages.status_answer_message(None)
    if await services.runs.is_forgotten(run.run_id):
        return messages.forgotten_message(run)
    live = await look_at(services, run)
    proved = [shown for shown in await load_rounds(live.pieces) if shown.evidence is not None]
    if sha is not None:
        proved = [s for s in proved if s.candidate and s.candidate.sha.startswith(sha)]
    if not proved:
        return messages.nothing_to_verify_message(sha)
    shown = proved[-1]
    assert shown.candidate is not None
    candidate = await live.pieces.demand(f"candidate:{shown.round}", Candidate)
    report = await live.pieces.demand(f"report:{shown.round}", TestReport)
    evidence = await live.pieces.demand(f"evidence:{shown.round}", EvidenceManifest)
    view = await load_view(run, live.request, live.pieces, branch=run.branch or "", public_url=None)
    broken = await services.workshop.verify_evidence(live.pin, candidate, report, evidence)
    public_url = services.settings.public_url
    keys_url = f"{public_url.rstrip('/')}{KEYS_PATH}" if public_url else None
    return messages.verify_message(view, shown, broken, keys_url=keys_url)


async def look_at(services: Services, run: Run) -> LiveRun:
    """Open a run for reading; nothing is claimed, and a write would be refused."""
    return await open_run(services, Claim(run, run.epoch))
