"""For every node: can it go, with at most one cheaper replacement?

The base state is made once; removing a node is laid over it and undone. Every node is looked at, every time.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace

import msgspec

from dovetail.core.scheduling.base import SOFT, Base, Requalified
from dovetail.core.scheduling.board import Board
from dovetail.core.scheduling.gathering import Gathering, plain_stance
from dovetail.core.scheduling.homeless import Homeless
from dovetail.core.scheduling.market import PRICES_BY_OFFERING
from dovetail.core.scheduling.placing import Placing
from dovetail.core.scheduling.register import Register
from dovetail.core.scheduling.remembering import BEYOND, Answer, Answers, Change, Room, beyond, census, reach
from dovetail.core.scheduling.removal import Bounds, Departure, Queue, Removal, Together, Trail, Twin, try_again
from dovetail.core.scheduling.rulebook import Rulebook
from dovetail.core.scheduling.shape import Shape
from dovetail.core.scheduling.shop import Purchase, Shop
from dovetail.core.scheduling.solve import queue_order, run
from dovetail.core.scheduling.stalling import Drain, Permits
from dovetail.core.scheduling.tally import SpreadTally, Tally
from dovetail.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from dovetail.model.nodepool import NodePool
from dovetail.model.pod import Pod
from dovetail.model.snapshot import ClusterNode, Snapshot
from dovetail.model.wire import Key


def sweep(snapshot: Snapshot, pools: Sequence[NodePool], *, respect_preferences: bool = True) -> Mapping[str, Removal]:
    """The answer for every managed, initialised node that is not on its way out, by name."""
    swept = Sweep(snapshot, pools, respect_preferences=respect_preferences)
    return {swept.name(row): swept.remove(row) for row in swept.rows}


class Sweep:
    """One base state, asked about many nodes."""

    def __init__(  # noqa: PLR0913 - what it is made from
        self,
        snapshot: Snapshot,
        pools: Sequence[NodePool],
        *,
        respect_preferences: bool = True,
        waiting: Sequence[Pod] = (),
        closed: Container[str] = (),
        register: Register | None = None,
    ) -> None:
        """`waiting` pods take their room first; nodes named in `closed` take none of the pods that are moved."""
        self._base = Base(snapshot, waiting, pools, register=register)
        self._prices = {pool: PRICES_BY_OFFERING.of(types) for pool, types in snapshot.catalogs.items()}
        nodes = self._base.rooms.nodes
        self.rows = [row for row, node in enumerate(nodes) if node.managed and node.initialized]
        self._moving_by_row = {row: self._moving(row) for row in self.rows}
        shapes = dict.fromkeys(shape for moving in self._moving_by_row.values() for _, shape in moving)
        shapes.update(dict.fromkeys(shape for _, shape in self._base.moving))
        self._rulebook = Rulebook(self._base, shapes, respect_preferences=respect_preferences)
        self._board = Board(self._base, self._rulebook)
        self._shop = Shop(self._base)
        self._homeless = Homeless(self._board)
        self._spreads = {shape: self._spreads_of(shape) for shape in shapes}
        self._bound = {shape: not self._free(shape) for shape in shapes}
        self._plain = {shape: plain_stance(self._board, shape) for shape in shapes}
        self._departures: dict[int, Departure] = {}
        self._price_by_row: dict[int, float | None] = {}
        self._answers = Answers[int, Removal]()
        self._sets = Answers[tuple[tuple[int, ...], Bounds], Together]()
        self._twins: dict[tuple[float | None, Shop, tuple[int, ...]], Twin | None] = {}
        self.expecting, self.homeless = self._give_room_to_the_waiting()
        for row, node in enumerate(nodes):
            if node.name in closed:
                self._board.removed[row] = row

    def _give_room_to_the_waiting(self) -> tuple[frozenset[str], frozenset[Key]]:
        """The nodes they go to, and who finds none. A node is bought for these, but that is looked at elsewhere."""
        placing = Placing(self._board, self._shop, most_drafts=0)
        node_by_pod: dict[Key, str] = {}
        left = run(placing, sorted(self._base.moving, key=queue_order), node_by_pod)
        return frozenset(node_by_pod.values()), frozenset([pod.key for pod, _ in left])

    def name(self, row: int) -> str:
        """The node of a row."""
        return self._base.rooms.nodes[row].name

    def _moving(self, row: int) -> Queue:
        movable = self._base.rooms.nodes[row].movable
        return [resident for resident in self._base.residents[row] if id(resident[0]) in movable]

    def _spreads_of(self, shape: Shape) -> tuple[SpreadTally, ...]:
        rules = (self._rulebook.rules(stance) for stance in self._rulebook.ladder(shape))
        return tuple(dict.fromkeys(tally for each in rules for tally, _ in each.spread))

    def _free(self, shape: Shape) -> bool:
        return all(self._rulebook.rules(stance).free for stance in self._rulebook.ladder(shape))

    def row(self, name: str) -> int:
        """The row of a node."""
        return self._base.rooms.row_by_name[name]

    def remove_together(self, rows: Sequence[int], bounds: Bounds) -> Together:
        """Take several nodes away, look, and put everything back."""
        asked = (tuple(rows), bounds)
        known = self._sets.get(asked)
        if known is None:
            known = self._sets[asked] = self._look_together(asked[0], bounds)
        return known.value

    def starting_place(self, rows: Sequence[int], bounds: Bounds) -> ClusterNode | None:
        """A node that is not initialized and would take a pod of these rows before anything is bought, or None.

        Such nodes are closed to all other questions. They are opened for this one, so nothing of it is remembered.
        """
        removed = self._board.removed
        opened = [row for row, node in enumerate(self._base.rooms.nodes) if not node.initialized and row in removed]
        if not opened:
            return None
        for row in opened:
            del removed[row]
        try:
            placing = Placing(self._board, Shop(self._base), below=bounds.below, most_drafts=bounds.most_drafts)
            trail = self._simulate(rows, placing, self._departure(self._queue(rows, bounds)))
        finally:
            removed.update((row, row) for row in opened)
        taken = {*trail.places, *(row for _, row in trail.later)}
        return next((self._base.rooms.nodes[row] for row in opened if row in taken), None)

    def _look_together(self, rows: tuple[int, ...], bounds: Bounds) -> Answer[Together]:
        shop = self._in_exchange(rows)
        if bounds.most_drafts is None:
            placing = Placing(self._board, shop.fresh(), below=bounds.below)
        else:
            placing = Gathering(self._board, shop, below=bounds.below, most_drafts=bounds.most_drafts)
        departure = self._departure(self._queue(rows, bounds))
        trail = self._simulate(rows, placing, departure)
        together = Together(trail.drafts if trail.blocker is None else (), trail.blocker)
        if trail.blocker is not None:
            together = replace(together, limits=self._limiting(rows, departure, bounds))
        return Answer(together, rows, departure.shapes, tuple(trail.places), tuple(trail.later))

    def _queue(self, rows: Sequence[int], bounds: Bounds) -> Queue:
        """The pods that leave these rows, in the order they are placed."""
        moving = [entry for row in rows for entry in self._moving_by_row[row] if entry[0].key not in bounds.staying]
        return sorted(moving, key=queue_order)

    def _limiting(self, rows: Sequence[int], departure: Departure, bounds: Bounds) -> str:
        """The limits without which nodes could go that cannot; empty if they could not go without limits either."""
        shop = self._in_exchange(rows)
        if not shop.restricted:
            return ""
        placing = Placing(self._board, shop.unlimited(), below=bounds.below, most_drafts=bounds.most_drafts)
        trail = self._simulate(rows, placing, departure)
        return shop.blocking(trail.drafts) if trail.blocker is None else ""

    def _in_exchange(self, rows: Sequence[int]) -> Shop:
        """What may be bought for the pods of rows that go: these do not count against limits."""
        return self._shop.without([self._base.rooms.nodes[row] for row in rows])

    def stalled(self, rows: Sequence[int], permits: Permits, bounds: Bounds) -> Pod | None:
        """The pod a drain of nodes that can go would wait for without end, as budgets let go of pods now, or None."""
        moving = (entry for row in rows for entry in self._moving_by_row[row])
        ruled = any(pod.key in permits.budgets and self._ruled(shape) for pod, shape in moving)
        return self.drain(rows, permits, bounds).blocker() if ruled else None

    def drain(self, rows: Sequence[int], permits: Permits, bounds: Bounds) -> Drain:
        """A drain of these nodes, to be lived through, with what may be bought to replace them."""
        moving = {row: self._moving_by_row[row] for row in rows}
        spreads = self._departure([entry for queue in moving.values() for entry in queue]).spreads
        shop = self._in_exchange(rows)
        placing = Placing(self._board, shop, below=bounds.below, most_drafts=bounds.most_drafts)
        return Drain(placing, moving, spreads, permits)

    def unruled(self, row: int) -> bool:
        """Whether nothing but taints, labels and size decides where the pods of a node may run."""
        return all(self._plain[shape] is not None for _, shape in self._moving_by_row[row])

    def _ruled(self, shape: Shape) -> bool:
        """Whether topology binds a pod even when it gives up everything it prefers."""
        return not self._rulebook.rules(self._rulebook.ladder(shape)[-1]).free

    def remove(self, row: int) -> Removal:
        """Take one node away, look, and put everything back."""
        known = self._answers.get(row)
        if known is None:
            known = self._answers[row] = self._with_limits(row, self._look(row))
        return known.value

    def _with_limits(self, row: int, answer: Answer[Removal]) -> Answer[Removal]:
        """The answer that a node stays names the limits it stays for."""
        price = answer.value.price
        if answer.value.blocker is None or price is None or not self._in_exchange((row,)).restricted:
            return answer
        departure = self._departure(sorted(self._moving_by_row[row], key=queue_order))
        limits = self._limiting((row,), departure, Bounds(below=price, most_drafts=1))
        if not limits:
            return answer
        return msgspec.structs.replace(answer, value=msgspec.structs.replace(answer.value, limits=limits))

    def _look(self, row: int) -> Answer[Removal]:
        moving = self._moving_by_row[row]
        price = self._price(row)
        if not moving:
            return Answer(Removal("delete", price), (row,))
        departure = self._departures.get(row)
        if departure is None:
            departure = self._departures[row] = self._alone(sorted(moving, key=queue_order))
        purchase = Purchase(price, self._in_exchange((row,)))
        twin = self._twin(departure, purchase)
        if twin is not None and row not in twin.rooms:
            return twin.answer(row, departure, price)
        evidence = self._answers.seen.get(row)
        if evidence is None:
            glance = self._homeless.glance(row, departure.queue, purchase)
            evidence = glance.evidence
            if glance.blocker is not None:
                removal = Removal("stay", price, blocker=glance.blocker)
                return Answer(removal, (row,), departure.shapes, evidence=evidence)
        trail = self._simulate((row,), self._gathering(purchase), departure)
        if trail.blocker is not None:
            removal = Removal("stay", price, blocker=trail.blocker)
        else:
            removal = Removal("replace", price, trail.drafts[0]) if trail.drafts else Removal("delete", price)
        return Answer(removal, (row,), departure.shapes, tuple(trail.places), tuple(trail.later), evidence)

    def _gathering(self, purchase: Purchase) -> Gathering:
        most_drafts = 0 if purchase.below is None else 1
        return Gathering(self._board, purchase.shop, below=purchase.below or 0.0, most_drafts=most_drafts)

    def _twin(self, departure: Departure, purchase: Purchase) -> Twin | None:
        """What would come of such pods if they came from nowhere; None if they may need a node of their own.

        Plain pods of the same needs, in the same order, go to the same rooms, and a room that none of them goes to
        might as well not be there: so the answer is that of every node with such pods, but those they go to.
        """
        if departure.homes is None:
            return None
        key = (purchase.below, purchase.shop, departure.homes)
        if key not in self._twins:
            self._twins[key] = self._from_afar(departure, purchase)
        return self._twins[key]

    def _from_afar(self, departure: Departure, purchase: Purchase) -> Twin | None:
        glance, few = self._homeless.glance_from_afar(departure.queue, purchase)
        homes = zip(departure.shapes, departure.homes or (), strict=True)
        seen = frozenset([home for shape, home in homes if shape in glance.evidence])
        blocker = glance.blocker
        places: tuple[int, ...] = ()
        if blocker is None:
            trail = self._simulate((), self._gathering(purchase), departure)
            if trail.blocker is None and trail.drafts:
                return None
            blocker, places = trail.blocker, tuple(trail.places)
        pods = [pod for pod, _ in departure.queue]
        blocked = next((place for place, pod in enumerate(pods) if pod is blocker), None)
        return Twin(few.union(places), places, blocked, seen)

    def _alone(self, queue: Queue) -> Departure:
        """The pods of one room, and where each could go."""
        departure = self._departure(queue)
        if any(self._plain[shape] is None for shape in departure.shapes):
            return departure
        homes = tuple([id(self._homeless.rooms(shape)) for shape in departure.shapes])  # one list for all alike
        return msgspec.structs.replace(departure, homes=homes)

    def _departure(self, queue: Queue) -> Departure:
        shapes = tuple([shape for _, shape in queue])
        return Departure(queue, shapes, tuple(dict.fromkeys([t for shape in shapes for t in self._spreads[shape]])))

    def _simulate(self, rows: Sequence[int], placing: Placing, departure: Departure) -> Trail:
        """Without these rows: who finds no place, what has to be bought, and who ends where."""
        board = self._board
        mark = board.journal.mark()
        for row in rows:
            board.remove(row, departure.spreads)
        trail = Trail()
        trail.blocker = self._blocker(placing, departure.queue, trail)
        trail.drafts = tuple(board.drafts)
        board.undo(mark)
        return trail

    def _blocker(self, placing: Placing, queue: Queue, trail: Trail) -> Pod | None:
        """A pod that finds no place, or None when all do."""
        waiting: list[tuple[Pod, Shape]] = []
        places = trail.places
        gathering = placing if isinstance(placing, Gathering) else None
        for pod, shape in queue:
            plain = self._plain[shape] if gathering is not None else None
            if gathering is not None and plain is not None:
                row = gathering.place_plain(pod, shape, plain)
                places.append(BEYOND if row is None else row)
                if row is None:
                    return pod
                continue
            unfit = gathering.settle() if gathering is not None else None
            if unfit is not None:
                return unfit
            found = placing.place(pod, shape)
            places.append(found if isinstance(found, int) else BEYOND)
            if found is None:
                if not self._bound[shape]:
                    return pod  # room only shrinks, so it will not find one later either
                waiting.append((pod, shape))
        unfit = gathering.settle() if gathering is not None else None
        if unfit is not None:
            return unfit
        return try_again(placing, waiting, trail.later)

    def part_with(self, row: int) -> bool:
        """A node is on its way out, or gone: nobody goes there, and who is there does not count.

        False as for `follow`.
        """
        node = replace(self._base.rooms.nodes[row], pods=())
        if self._base.limits.remaining or any(taint.effect == SOFT for taint in self._base.rooms.taints[row]):
            return False  # what may be bought, or what pods prefer, may be something else without it
        if not self.follow(row, node, closed=True, gone=True):
            return False
        self.rows = [each for each in self.rows if each != row]
        self._moving_by_row.pop(row, None)
        self._base.rooms.row_by_name.pop(node.name)
        return True

    def follow(self, row: int, node: ClusterNode, *, closed: bool, gone: bool = False) -> bool:
        """Other pods are on a node, or it is closed or not: keep every answer that cannot be another now.

        False means that the sweep is of no more use and has to be made anew.
        """
        base, board = self._base, self._board
        self._twins.clear()
        before = self._room(row)
        lists = base.replace_room(row, node, gone=gone)
        after = replace(self._room(row), closed=closed)
        if before.taking == after.taking and before.closed is closed and not gone:
            lists = Requalified()  # it is as full as before
        left, come = beyond(before.placed, after.placed), beyond(after.placed, before.placed)
        if not all(self._adopted(*resident) for resident in base.residents[row]):
            return False
        if not self._rulebook.moved(row, left, come):
            return False
        if row in self._moving_by_row:
            self._moving_by_row[row] = self._moving(row)
            self._departures.pop(row, None)
            self._homeless.forget(row)
            if any(shape not in self._bound for _, shape in self._moving_by_row[row]):
                return False
        board.refill(row, left, come)
        listed = set() if before.closed else lists.before
        board.removed.pop(row, None)
        if closed:
            board.removed[row] = row
        else:
            listed = listed | lists.after
        dropped = board.drop(row) if gone else set()
        change = replace(self._change(row, lists, listed, {*left, *come}, dropped), reach=reach(row, before, after))
        self._answers.turn(change, before, after)
        self._sets.turn(change, before, after)
        return True

    def _adopted(self, pod: Pod, shape: Shape) -> bool:
        """Whether a shape is known, or can be made known without any rule becoming another."""
        book = self._rulebook
        if not book.knows(shape):
            if not self._base.measures(pod, shape) or not book.adopt(shape):
                return False
            self._spreads[shape] = self._spreads_of(shape)
            self._bound[shape] = not self._free(shape)
            self._plain[shape] = plain_stance(self._board, shape)
        return True

    def _room(self, row: int) -> Room:
        taking = census([shape for _, shape in self._base.residents[row]])
        return Room(taking, census(self._base.placed(row)), tuple(self._base.free[row]), row in self._board.removed)

    def _change(self, row: int, lists: Requalified, listed: set[int], moved: set[Shape], dropped: set[Tally]) -> Change:
        touched, always, cramped, expelled = set(), set(), set(), set()
        for shape in self._bound:
            ladder = self._rulebook.ladder(shape)
            known = [id(self._base.candidates_known(stance)) for stance in ladder]
            if not listed.isdisjoint(known):
                touched.add(shape)
                if len(ladder) > 1:
                    always.add(shape)
            if not lists.short.isdisjoint(known):
                cramped.add(shape)
                if not lists.left.isdisjoint(known):
                    expelled.add(shape)
        counting = dropped | {tally for shape in moved for tally in self._rulebook.counted_by[shape]}
        always |= self._rulebook.asking(counting) if counting else set()
        return Change(row, frozenset(touched), frozenset(always), frozenset(cramped), frozenset(expelled))

    def _price(self, row: int) -> float | None:
        if row not in self._price_by_row:
            node = self._base.rooms.nodes[row]
            labels = node.labels
            bought = labels.get(INSTANCE_TYPE, ""), labels.get(ZONE, ""), labels.get(CAPACITY_TYPE, "")
            self._price_by_row[row] = self._prices.get(node.nodepool_name, {}).get(bought)
        return self._price_by_row[row]
