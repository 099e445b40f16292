"""The worked example of the page about the solver, computed by the solver."""

from acceptance.fleet import ON_DEMAND, free, worker
from builders import pod, snapshot
from core.scheduling.parts import labeled, spread
from docs.pages import ROOT
from dovetail.core.scheduling.draft import cheapest
from dovetail.core.scheduling.problem import Problem
from dovetail.core.scheduling.removal_simulation import RemovalSimulation
from dovetail.core.scheduling.solver import solve
from dovetail.model.kube_object import Key
from dovetail.model.labels import ZONE

PAGE = (ROOT / "docs" / "concepts" / "solver.md").read_text()
POOL = free(template=ON_DEMAND)
NODE_B = worker("node-b", pod("web-2", cpu="3500m", on="node-b"), zone="zone-b")


def api(number, **fields):
    return labeled(f"api-{number}", spec=spread(), **fields)


PENDING = [api(number) for number in (1, 2, 3)]
BEFORE = snapshot(PENDING, [worker("node-a", pod("web-1", cpu="3", on="node-a")), NODE_B], [POOL])


def rows(page):
    return [
        [cell.strip() for cell in line.strip("| ").split("|")] for line in page.splitlines() if line.startswith("|")
    ]


def test_the_problem_has_the_rows_on_the_page():
    problem = Problem(BEFORE, PENDING, [POOL])
    written = [row for row in rows(PAGE) if row[1:2] in (["node-a"], ["node-b"]) and row[0] in {"0", "1"}]
    nodes = [(node.name, node.labels[ZONE]) for node in problem.existing_nodes.nodes]
    computed = [[str(row), *nodes[row], *map(str, problem.free[row])] for row in range(len(nodes))]
    assert written == computed
    assert len(problem.all_shapes) == 3
    assert len(problem.type_tables[0].offerings) == 6


def test_the_pods_are_placed_as_the_page_says():
    result = solve(BEFORE, PENDING, [POOL])
    assert result.node_by_pod == {Key("default", "api-1"): "node-a"}
    (draft,) = result.drafts
    assert (draft.number, draft.total[0], draft.possible(ZONE), cheapest(draft)) == (2, 2000, ("zone-b",), 0.5)
    assert [each.name for each in draft.pod_keys] == ["api-2", "api-3"]
    assert draft.type_names == {"m.small", "m.large", "m.huge"}


def test_the_removals_come_out_as_the_page_says():
    node_a = worker("node-a", pod("web-1", cpu="1", on="node-a"), api(1, on="node-a"))
    node_c = worker(
        "node-c", api(2, on="node-c"), api(3, on="node-c"), zone="zone-b", type_="m.small", size=("2", "8Gi")
    )
    simulation = RemovalSimulation(snapshot(nodes=[node_a, NODE_B, node_c], pools=[POOL]), [POOL])
    removals = {simulation.name(row): simulation.remove(row) for row in simulation.rows}
    answers = [(name, f"${found.price:.2f}", f"**{found.kind}**") for name, found in removals.items()]
    written = [row for row in rows(PAGE) if row[0].startswith("node-")]
    assert [(row[0], row[1], row[3].split()[0].rstrip(":")) for row in written] == answers
    draft = removals["node-a"].draft
    assert (draft.type_names, draft.possible(ZONE), cheapest(draft)) == ({"m.small"}, ("zone-a",), 0.5)
    assert [removals[name].blocker.name for name in ("node-b", "node-c")] == ["web-2", "api-2"]
