import asyncio

import pytest

from bot.errors import PieceConflict, StaleEpoch
from bot.store.database import Database
from bot.store.pieces import Pieces
from bot.store.runs import RunStore
from tests.integration.store.make import make_run

pytestmark = pytest.mark.postgres


@pytest.fixture
def pieces(database: Database) -> Pieces:
    return Pieces(database)


@pytest.fixture
def runs(database: Database) -> RunStore:
    return RunStore(database)


@pytest.fixture
async def claimed(runs: RunStore) -> tuple[str, int]:
    run = await make_run(runs)
    claim = await runs.claim(run.run_id)
    assert claim
    return run.run_id, claim.epoch


async def test_a_piece_is_read_back_as_it_was_saved(
    pieces: Pieces, claimed: tuple[str, int]
) -> None:
    """What models and Git say is kept exactly: NUL, lone surrogates and all."""
    run_id, epoch = claimed
    odd = {"text": "a\x00b\ud800 ✓", "list": (1, 2), "none": None}
    await pieces.save(run_id, "plan", odd, epoch=epoch, contract_version=3)
    piece = await pieces.load(run_id, "plan")
    assert piece
    assert piece.value == {"text": "a\x00b\ud800 ✓", "list": [1, 2], "none": None}
    assert (piece.epoch, piece.contract_version) == (epoch, 3)
    assert await pieces.load(run_id, "report") is None


async def test_a_piece_is_saved_once(pieces: Pieces, claimed: tuple[str, int]) -> None:
    """The same value again gives the stored piece; a different one is refused and not stored."""
    run_id, epoch = claimed
    first = await pieces.save(run_id, "plan", {"n": 1}, epoch=epoch, contract_version=1)
    again = await pieces.save(run_id, "plan", {"n": 1}, epoch=epoch, contract_version=1)
    assert again == first
    with pytest.raises(PieceConflict):
        await pieces.save(run_id, "plan", {"n": 2}, epoch=epoch, contract_version=1)
    assert (await pieces.load_all(run_id))["plan"].value == {"n": 1}


async def test_pieces_saved_side_by_side_are_all_there(
    pieces: Pieces, claimed: tuple[str, int]
) -> None:
    """Workers that finish at the same moment lose nothing."""
    run_id, epoch = claimed
    keys = [f"record:0:task-{number}" for number in range(20)]
    await asyncio.gather(
        *(pieces.save(run_id, key, {"k": key}, epoch=epoch, contract_version=1) for key in keys)
    )
    assert sorted(await pieces.load_all(run_id)) == sorted(keys)


async def test_a_stale_worker_saves_nothing(
    pieces: Pieces, runs: RunStore, claimed: tuple[str, int]
) -> None:
    """Whoever lost the run cannot save a piece for it."""
    run_id, epoch = claimed
    await runs.claim(run_id)
    with pytest.raises(StaleEpoch):
        await pieces.save(run_id, "plan", {}, epoch=epoch, contract_version=1)
    assert await pieces.load_all(run_id) == {}
