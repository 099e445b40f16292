"""`--watch` prints an answer again when it changes, and only then."""

import asyncio
import json
from dataclasses import replace
from datetime import timedelta

import pytest
from typer.testing import CliRunner

from acceptance.fleet import cluster, running, worker
from builders import NOON, nodepool
from dovetail.cli.app import app
from dovetail.cli.view.plan import plan_document, print_plan
from dovetail.cli.view.printing import only_changes
from dovetail.cli.watch import answer_changes
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.disruption.planner import plan_pass
from dovetail.dashboard.published_state import PublishedState
from dovetail.manifest.snapshot_file import snapshot_bytes
from dovetail.settings import Settings


def taken(*nodes, seconds=0):
    when_empty = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "0s"}
    found = cluster(*nodes, pools=[nodepool("web", disruption=when_empty)])
    return replace(found, at=NOON + timedelta(seconds=seconds))


BUSY = [worker(name, running(f"pod-{name}", name, cpu="3"), pool="web") for name in ("a", "b")]
EMPTY = worker("c", pool="web")


def watched(snapshots, output):
    """What `plan --watch` prints while these snapshots are published one after another."""

    def answer(snapshot):
        plan = plan_pass(PassContext(snapshot, Settings().options), thorough=True)
        print_plan(plan_document(plan, snapshot), output)

    async def follow():
        state, done = PublishedState(), asyncio.Event()

        def count(snapshot):
            answer(snapshot)
            loop.call_soon_threadsafe(done.set)

        loop = asyncio.get_running_loop()
        following = asyncio.create_task(answer_changes(state, count))
        for each in snapshots:
            await asyncio.sleep(0)
            state.publish(each)
            answered = asyncio.create_task(done.wait())
            await asyncio.wait([answered, following], return_when=asyncio.FIRST_COMPLETED)
            assert not following.done(), following.exception()
            done.clear()
        following.cancel()
        await asyncio.wait([following])

    with only_changes():
        asyncio.run(follow())


def test_an_answer_is_printed_again_only_when_it_changes(capsys):
    same = [taken(*BUSY), taken(*BUSY, seconds=30), taken(*BUSY, EMPTY, seconds=60), taken(*BUSY, EMPTY, seconds=90)]
    watched(same, "json")
    text, documents = capsys.readouterr().out, []
    while text.strip():
        document, end = json.JSONDecoder().raw_decode(text := text.lstrip())
        documents.append(document)
        text = text[end:]
    assert [each["at"][11:19] for each in documents] == ["12:00:00", "12:01:00"]
    assert [len(each["commands"]) for each in documents] == [0, 1]


def test_answers_are_separated(capsys):
    watched([taken(*BUSY), taken(*BUSY, EMPTY)], "yaml")
    assert capsys.readouterr().out.count("\n---\n") == 1
    watched([taken(*BUSY), taken(*BUSY, EMPTY)], "text")
    assert "\n\nPlan for 3 nodes at" in capsys.readouterr().out
    watched([taken(*BUSY), taken(*BUSY, EMPTY)], "name")
    assert capsys.readouterr().out == "node/c\n"


@pytest.mark.parametrize(
    "command", [("plan",), ("explain", "node/a"), ("budgets", "web"), ("budgets", "web", "--file", "pool.yaml")]
)
def test_a_file_cannot_be_watched(tmp_path, command):
    path = tmp_path / "cluster.json"
    path.write_bytes(snapshot_bytes(taken(*BUSY)))
    source = () if "--file" in command else ("--snapshot", str(path))
    result = CliRunner().invoke(app, [*command, *source, "--watch"], env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert "needs a live cluster and cannot be combined with --" in result.stderr
