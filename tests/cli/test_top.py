"""`dovetail top` as a command, and its screen at every size of the terminal."""

import io
import json
import time
from asyncio import sleep

import pytest
import yaml
from rich.console import Console
from typer.testing import CliRunner

from acceptance.fleet import cluster, running, shielded, worker
from builders import nodepool
from cli.terminal import terminal
from dashboard.pages import page_served
from dovetail.cli.app import app
from dovetail.cli.top_live import Top, keys_of
from dovetail.cli.view.plan import plan_document
from dovetail.cli.view.top import ORDERS, TopView, top_document, top_screen
from dovetail.core.disruption.planner import plan_disruption
from dovetail.dashboard.publisher import draw_once
from dovetail.manifest.snapshot_file import snapshot_bytes
from dovetail.model.kinds import POD
from dovetail.settings import DecisionOptions
from dovetail.sim.virtual_loop import run
from dovetail.sim.world import WorldOptions
from dovetail.wiring.embedded import embedded
from dovetail.wiring.live import snapshot_from_state
from stories import ACTING, deployment, node_class, pool

LONG = "ip-10-0-{:03}-7.eu-central-1.compute.internal"


def some_cluster():
    nodes = [
        worker("a", running("x", "a", cpu="3"), type_="m.huge"),
        worker("b"),
        worker("c", shielded("y", "c")),
        worker("d", pool="calm"),
    ]
    return cluster(*nodes, pools=[nodepool(limits={"cpu": "64"}), nodepool("calm")])


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    path = tmp_path_factory.mktemp("top") / "cluster.json"
    path.write_bytes(snapshot_bytes(some_cluster()))
    return path


def top(kept, *arguments):
    return CliRunner().invoke(app, ["top", "--snapshot", str(kept), *arguments])


def told(kept, *arguments):
    result = top(kept, *arguments, "-o", "json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_the_values_are_those_of_the_page(kept):
    with page_served(some_cluster()) as page:
        while "planned" not in (whole := page.ask("/api/cluster").json)["summary"]:
            time.sleep(0.02)
    whole["summary"]["planned"].pop("tookSeconds")
    shown = told(kept)
    assert shown["summary"] == {**whole["summary"], "still": True}
    assert sorted(shown["nodes"], key=lambda node: node["name"]) == sorted(
        whole["nodes"], key=lambda node: node["name"]
    )


def test_what_is_shown_is_added_up_for_the_chosen_pool_alone(kept):
    calm = told(kept, "--nodepool", "calm")
    assert [node["name"] for node in calm["nodes"]] == ["d"]
    assert (calm["shown"]["nodes"], calm["shown"]["costPerHour"]) == (1, 1.0)
    assert calm["summary"]["nodes"] == 4
    assert told(kept)["shown"]["costPerHour"] == calm["summary"]["costPerHour"] == 7.0


@pytest.mark.parametrize(
    ("order", "first"), [("pool", "d"), ("price", "a"), ("cpu", "b"), ("memory", "b"), ("age", "a")]
)
def test_nodes_are_in_the_chosen_order(kept, order, first):
    names = [node["name"] for node in told(kept, "--sort", order)["nodes"]]
    assert names[0] == first
    assert sorted(names) == ["a", "b", "c", "d"]


def test_a_pipe_gets_lines_and_yaml_equals_json(kept):
    lines = top(kept).stdout.splitlines()
    assert " 4 nodes " in lines[1]
    assert "$7.000/h" in lines[1]
    assert " ".join(lines[4].split()) == "NODE TYPE CAPACITY ZONE $/H AGE STATE CPU MEM PODS WAITS FOR"
    assert lines[5].startswith("calm (1)")
    assert all(line == line.rstrip() for line in lines)
    assert yaml.safe_load(top(kept, "-o", "yaml").stdout) == told(kept)


def test_an_unknown_nodepool_is_refused_with_a_suggestion(kept):
    result = top(kept, "--nodepool", "clam")
    assert result.exit_code == 2
    assert "did you mean 'calm'?" in result.stderr


def test_a_missing_cluster_is_reported(tmp_path):
    result = CliRunner().invoke(app, ["top", "--once", "--kubeconfig", str(tmp_path / "none")])
    assert result.exit_code == 2
    assert "none" in result.stderr


def crowd(number):
    """Tiles of so many nodes with long names."""
    names = [LONG.format(each) for each in range(number)]
    snapshot = cluster(
        *(worker(name, pool="general" if index % 3 else "batch") for index, name in enumerate(names)),
        pools=[nodepool("general"), nodepool("batch", disruption={"budgets": [{"nodes": "0"}]})],
    )
    plan = plan_document(plan_disruption(snapshot, thorough=True), snapshot)
    return draw_once(snapshot, plan, DecisionOptions(), still=False)


@pytest.fixture(scope="module")
def many():
    return crowd(120)


def paper(width, height):
    return Console(file=io.StringIO(), width=width, height=height, force_terminal=True, color_system=None)


def drawn(seen, choice, width, height):
    console = paper(width, height)
    shown, choice = top_screen(top_document(seen[0].values(), seen[1], choice), choice, console)
    console.print(shown, end="")
    return console.file.getvalue().splitlines(), choice


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("width", [10, 24, 40, 55, 56, 80, 84, 100, 112, 150, 240])
@pytest.mark.parametrize("height", [4, 24])
def test_the_screen_fits_whatever_the_terminal(many, order, width, height):
    lines, _ = drawn(many, TopView(order), width, height)
    assert max(map(len, lines)) <= width
    assert len(lines) <= max(height, 6)


@pytest.mark.parametrize(("width", "seen", "unseen"), [(60, "WAITS FOR", "TYPE"), (40, "CPU", "WAITS FOR")])
def test_a_narrow_terminal_keeps_the_most_important_columns(many, width, seen, unseen):
    text = "\n".join(drawn(many, TopView(), width, 24)[0])
    assert seen in text
    assert unseen not in text
    assert "Ready" in text


def test_a_wide_terminal_shows_what_each_node_waits_for(many):
    lines, _ = drawn(many, TopView("waits"), 200, 24)
    assert any("budget '0' of NodePool batch allows 0" in line for line in lines)


def named(lines):
    return {line.split()[0] for line in lines if line.strip().startswith("ip-")}


def test_every_node_is_reached_page_by_page_and_never_past_the_end(many):
    console = paper(200, 20)
    screens = []

    def draw(shown):
        console.file.truncate(0)
        console.file.seek(0)
        console.print(shown, end="")
        screens.append(console.file.getvalue().splitlines())

    view = Top(TopView(), console, draw)
    view.show(*many, ())
    found = set()
    for _ in range(12):
        found |= named(screens[-1])
        view.press(" ")
    assert found == set(many[0])
    last = screens[-1]
    view.press("G")
    view.press("down")
    assert screens[-1] == last
    assert "of 122" in last[-1]
    view.press("g")
    assert screens[-1] == screens[0]


def test_keys_change_order_and_pool_and_end_it(many):
    view = Top(TopView(), paper(120, 20), lambda _: None)
    view.show(*many, ())
    view.press("s")
    assert view.choice.order == "price"
    seen = []
    for _ in range(3):
        view.press("n")
        seen.append(view.choice.nodepool)
    assert seen == ["batch", "general", ""]
    view.press("x")
    assert not view.stopped.is_set()
    view.press("q")
    assert view.stopped.is_set()


def test_without_data_the_screen_shows_what_is_missing():
    shown = []
    view = Top(TopView(), paper(80, 20), shown.append)
    view.show({}, {}, ("pods are not listed yet",))
    view.press("n")
    console = paper(80, 20)
    console.print(shown[-1])
    assert "pods are not listed yet" in console.file.getvalue()


@pytest.mark.parametrize(
    ("typed", "keys"),
    [("q", ["q"]), ("\x1b[A\x1b[6~s", ["up", "page down", "s"]), ("j\x1b[99;5~", ["j"]), ("\x1b", [])],
)
def test_input_is_split_into_keys(typed, keys):
    assert list(keys_of(typed)) == keys


def test_five_thousand_nodes_are_drawn_in_no_time():
    seen = crowd(5000)
    began = time.process_time()
    lines, _ = drawn(seen, TopView(), 150, 50)
    assert time.process_time() - began < 1.0
    assert "of 5002" in lines[-1]


def test_nodes_of_the_embedded_world_are_shown_as_they_come_and_go():
    async def main():
        async with embedded(WorldOptions(), ACTING) as life:
            state, sights = life.parts.manager.state, []

            async def published_view():
                snapshot = await snapshot_from_state(state, life.parts.supplier, life.world.clock)
                plan = plan_document(plan_disruption(snapshot, thorough=True), snapshot)
                sights.append(draw_once(snapshot, plan, DecisionOptions(), still=False))

            for manifest in (node_class(), pool(), deployment(replicas=6)):
                life.world.apply(manifest)
            await state.synced()
            for _ in range(2400):
                await sleep(1)
                if all(pod.spec.node_name for pod in life.world.values(POD)) and state.cluster_nodes():
                    break
            await sleep(60)
            await published_view()
            life.world.apply(deployment(replicas=0))
            for _ in range(3600):
                await sleep(1)
                if any(node.deleting for node in state.cluster_nodes()):
                    break
            await published_view()
            return sights

    before, after = run(main(), limit=4 * 3600.0)
    lines, _ = drawn(before, TopView(), 160, 30)
    assert " 6 pods " in lines[1]
    assert sum("Ready" in line for line in lines) == before[1]["nodes"] > 0
    assert before[1]["costPerHour"] > 0
    assert any("Draining" in line and "draining: " in line for line in drawn(after, TopView(), 160, 30)[0])


def test_on_a_terminal_it_is_live_until_q(kept):
    """In a terminal of its own: draws, hears keys, and leaves the terminal as it was."""
    with terminal("top", "--snapshot", kept) as screen:
        assert b"\x1b[?1049h" in screen.until(b"Next pass:")
        screen.press(b"s")
        screen.until(b"by price")
        screen.press(b"q")
        screen.until(b"\x1b[?1049l")
    assert screen.exit_code == 0


def test_ctrl_c_ends_it_as_q_does(kept):
    with terminal("top", "--snapshot", kept) as screen:
        screen.until(b"Next pass:")
        screen.press(b"\x03")
        screen.until(b"\x1b[?1049l")
    assert screen.exit_code == 0


def test_errors_are_printed_after_the_screen_is_closed(tmp_path):
    with terminal("top", "--kubeconfig", tmp_path / "none") as screen:
        seen = screen.until(b"Error: ")
        assert seen.index(b"\x1b[?1049l") < seen.index(b"Error: ")
    assert screen.exit_code == 2
