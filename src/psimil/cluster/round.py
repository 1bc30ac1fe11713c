"""One round: a task for every part, each asked again until one answer counts, the answers in the order of the parts."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from queue import Empty, Queue
from typing import Any

from psimil.cluster.checks import fault, is_finite
from psimil.cluster.cluster import Cluster
from psimil.cluster.worker import Order
from psimil.foundations.errors import ClusterFailure, NumericalFailure
from psimil.inference.problem import Chunk

TICK, LOOK = 0.2, 1.0  # seconds to wait for an answer, and between two looks at tasks that say nothing
PER_THREAD, AHEAD = 2, 16  # tasks in flight, and parts beyond the one that is waited for, per thread of the cluster


@dataclass(eq=False)
class Attempt:
    """A task that was sent out."""

    key: str
    future: Any
    due: float


@dataclass(eq=False)
class Piece:
    """A part on its way: its attempts that still run, and what is known of those that failed."""

    place: int
    chunk: Chunk
    number: int
    name: str
    attempts: list[Attempt] = field(default_factory=list)
    asked: int = 0
    avoid: set[str] = field(default_factory=set)
    not_finite: str | None = None

    def let_go(self) -> None:
        """Give up what still runs."""
        for attempt in self.attempts:
            attempt.future.release()
        self.attempts.clear()


class Round:
    """The answers of all parts to one task.

    Parameters
    ----------
    cluster : who works.
    run : what a worker does, :func:`psimil.cluster.worker.run_part`.
    order : the task and the density.
    number : of the round; answers to other rounds do not count.
    part_of : the argument that stands for a part: a future the first time, the part itself when ``fresh``.
    sticky : whether a part prefers the same worker in every round.
    retries : further attempts for a part.
    """

    def __init__(
        self,
        cluster: Cluster,
        run: Callable[..., Any],
        order: Order,
        number: int,
        part_of: Callable[[Chunk, bool], Any],
        *,
        sticky: bool,
        retries: int,
    ) -> None:
        self.cluster, self.run, self.order, self.number, self.part_of = cluster, run, order, number, part_of
        self.sticky, self.retries = sticky, retries
        self._done: Queue[tuple[Piece, Attempt]] = Queue()
        self._name = f"psimil-{uuid.uuid4().hex[:12]}"

    def answers(self, chunks: list[Chunk], numbers: list[int], total: int) -> Iterator[Any]:
        """One result per chunk, in their order; their numbers among the ``total`` parts name them to people."""
        if not chunks:
            return
        self._workers = self.cluster.threads()
        self._sent = self.cluster.sent(self.order, broadcast=True)
        pieces = (
            Piece(i, chunk, n, f"part {n + 1} of {total}")
            for i, (chunk, n) in enumerate(zip(chunks, numbers, strict=True))
        )
        open_pieces: dict[int, Piece] = {}
        ready: dict[int, Any] = {}
        looked = time.monotonic()
        try:
            for place in range(len(chunks)):
                while place not in ready:
                    threads = sum(self._workers.values())
                    while len(open_pieces) < PER_THREAD * threads and len(open_pieces) + len(ready) < AHEAD * threads:
                        piece = next(pieces, None)
                        if piece is None:
                            break
                        open_pieces[piece.place] = piece
                        self._ask(piece)
                    if (found := self._next_answer()) is not None:
                        ready[found[0].place] = found[1]
                        del open_pieces[found[0].place]
                    if time.monotonic() - looked > LOOK:
                        self._look(list(open_pieces.values()))
                        looked = time.monotonic()
                yield ready.pop(place)
        finally:
            for piece in open_pieces.values():
                piece.let_go()

    def _ask(self, piece: Piece) -> None:
        again = piece.asked > 0
        workers = self.cluster.trusted(self._workers, piece.avoid)
        wanted: list[str] | None = None  # nobody to avoid, or nobody else
        if self.sticky and not again:
            wanted = [workers[piece.number % len(workers)]]
        elif len(workers) < len(self._workers):
            wanted = workers
        piece.asked += 1
        part = self.part_of(piece.chunk, again)
        sent = not again and self.cluster.sends and getattr(self._sent, "status", "finished") == "finished"
        order = self._sent if sent else self.order
        key = f"{self._name}-{self.number}-{piece.place}-{piece.asked}"
        future = self.cluster.submit(self.run, part, order, piece.place, self.number, key=key, workers=wanted)
        attempt = Attempt(key, future, time.monotonic() + self.cluster.limit * 2 ** (piece.asked - 1))
        piece.attempts.append(attempt)
        future.add_done_callback(lambda _: self._done.put((piece, attempt)))

    def _next_answer(self) -> tuple[Piece, Any] | None:
        """A part with its result, if one came; an answer that does not count is asked for again."""
        try:
            piece, attempt = self._done.get(timeout=TICK)
        except Empty:
            return None
        if attempt not in piece.attempts:
            return None  # the part has its answer, or this attempt was given up
        status = attempt.future.status
        if status == "error":
            self._failed(piece, attempt, attempt.future.exception())
        elif status == "finished":  # otherwise it was lost, which the next look sees
            try:
                answer = _fetched(attempt.future, self.cluster.limit)
            except Exception:  # its worker went away with it, or hangs
                self._dropped(piece, attempt, "the answer could not be fetched", "")
            else:
                return self._judged(piece, attempt, answer)
        return None

    def _judged(self, piece: Piece, attempt: Attempt, answer: Any) -> tuple[Piece, Any] | None:
        reason = fault(answer, self.order.task, piece.chunk, round=self.number, part=piece.place)
        if reason is None and is_finite(answer.result):
            self.cluster.seconds.append(answer.seconds)
            piece.let_go()  # others of this part, if any, come too late
            return piece, answer.result
        if reason is None:
            reason = "the answer is not finite"
            if piece.not_finite == answer.checksum:
                raise NumericalFailure(f"{piece.name}: the sums are not finite, twice with the same bits.")
            piece.not_finite = answer.checksum
        self._dropped(piece, attempt, reason, str(getattr(answer, "worker", "")))
        return None

    def _failed(self, piece: Piece, attempt: Attempt, error: Any) -> None:
        if isinstance(error, NumericalFailure):
            raise error  # the same wherever it is tried
        reason = (str(error) or type(error).__name__).splitlines()[0][:200].rstrip(".")
        worker = str(getattr(getattr(error, "last_worker", None), "address", ""))
        self._dropped(piece, attempt, reason, worker)

    def _dropped(self, piece: Piece, attempt: Attempt, reason: str, worker: str) -> None:
        """An attempt that gave nothing: ask again unless another one still runs."""
        piece.attempts.remove(attempt)
        attempt.future.release()
        piece.avoid |= {worker} - {""}
        if piece.attempts:
            return
        if piece.asked > self.retries:
            raise ClusterFailure(f"{piece.name} failed {piece.asked} times on the cluster; last: {reason}.")
        self._ask(piece)

    def _look(self, pieces: list[Piece]) -> None:
        """Whether the cluster is there, and what became of tasks that say nothing."""
        self.cluster.check()
        if self.cluster.client.status != "running":
            return
        self._workers = self.cluster.threads()
        for piece in pieces:
            for attempt in list(piece.attempts):
                if attempt.future.status in ("lost", "cancelled"):
                    self._dropped(piece, attempt, "it was lost with its worker", "")
            if piece.attempts and time.monotonic() > (latest := piece.attempts[-1]).due:
                if piece.asked > self.retries:
                    raise ClusterFailure(f"{piece.name} got no answer from the cluster, asked {piece.asked} times.")
                worker = self.cluster.worker_of(latest.key)
                piece.avoid |= {worker} - {""}
                self.cluster.suspect(worker)
                self._ask(piece)  # whichever answers first counts


def _fetched(future: Any, limit: float) -> Any:
    """The result of a future that is finished; an error as soon as it is known to be lost, or after the limit."""
    patience = 0.5
    while True:
        try:
            return future.result(timeout=patience)
        except TimeoutError:
            if future.status != "finished" or patience > limit:
                raise
        patience *= 2
