"""What is fuzzed: for each reader of outside input, how inputs are made and which answers are allowed."""

from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from dovetail.cli.simulation.loader import load, plan_runs
from dovetail.cli.simulation.variants import read_setting, read_sweep
from dovetail.cloud.aws.interruption.sqs import Malformed, parse_message
from dovetail.cloud.kwok.catalog import InstanceTypesInvalid
from dovetail.cloud.kwok.catalog.instance_types_file import load_instance_types
from dovetail.cloud.kwok.interruptions import StagedInterruptions
from dovetail.kube.cluster_access import read_access
from dovetail.kube.credentials import ExecCredentialSource
from dovetail.kube.decode import LineReader, ListPages, change_of
from dovetail.kube.kubeconfig import choose
from dovetail.kube.kubeconfig import load as load_kubeconfig
from dovetail.kube.requests import watch_call
from dovetail.manifest.codec import UNDECODABLE, Interner, decode, from_plain, to_plain
from dovetail.manifest.documents import read_documents
from dovetail.manifest.validation import faults_of
from dovetail.model.budget import parse_budget
from dovetail.model.cron import CronSchedule
from dovetail.model.duration import Delay, Duration
from dovetail.model.kinds import NODE, POD
from dovetail.model.kube_object import UnreadableObject
from dovetail.model.node import Node
from dovetail.model.nodepool import BudgetSpec
from dovetail.model.pause import read_pause
from dovetail.model.resources import Quantity
from dovetail.model.snapshot_builder import INVENTORY
from dovetail.ports.cluster import ListOptions
from dovetail.ports.errors import ApiError
from dovetail.settings import read_settings, setting_fields
from dovetail.sim.scenario.parsing import ScenarioInvalid
from dovetail.sim.scenario.trace import read_trace
from fuzz import corpus
from fuzz.commands import check_command, run_command, with_file
from fuzz.engine import Target
from fuzz.mutating import mutated_bytes, mutated_document, nudged_document
from fuzz.page import PAGE
from fuzz.words import TEXTS

KINDS = {(kind.api_version, str(kind)): kind for kind in INVENTORY}


def either(documents, texts=(), form="any"):
    """Makes an input by mutating a document's structure, or the bytes of a text."""

    def make(random: Random) -> bytes:
        if texts and random.random() < 0.3:
            return mutated_bytes(random, random.choice(texts), texts)
        content = mutated_document(random, random.choice(documents()), form=form)
        return mutated_bytes(random, content, tuple(texts)) if random.random() < 0.3 else content

    return make


def _check(holds: bool, error: Exception) -> None:
    assert holds, f"an error that does not say enough: {error}"


# Manifests


def run_validate(content: bytes) -> None:
    target, form = ("dovetail", "karpenter")[len(content) % 2], ("text", "json", "yaml")[len(content) % 3]
    with_file("manifest.yaml", content, "validate", "FILE", "FILE", "--target", target, "-o", form)


def run_budgets(content: bytes) -> None:
    on_file(content, ("budgets", "general", "-f", "FILE", "--nodes", "10", "--from", "2026-01-05"))


def run_codec(content: bytes) -> None:
    """Objects as bytes and as documents, of every kind; what can be read can be written and read again."""
    for kind in INVENTORY:
        with suppress(*UNDECODABLE):
            decode(kind, content)
    for document in read_documents(content.decode("utf-8", "replace"), "any"):
        faults_of(document.content)
        if isinstance(document.content, dict):
            kind = KINDS.get((str(document.content.get("apiVersion")), str(document.content.get("kind"))), POD)
            value = from_plain(kind, document.content)
            if not isinstance(value, UnreadableObject):
                assert from_plain(kind, to_plain(kind, value)) == value


# Snapshots and scenarios


def run_snapshot(content: bytes) -> None:
    commands = (
        ("plan", "--snapshot", "FILE"),
        ("plan", "--snapshot", "FILE", "-o", "json"),
        ("explain", "node", "general-1", "--snapshot", "FILE"),
        ("explain", "nodepool", "general", "--snapshot", "FILE"),
        ("budgets", "general", "--snapshot", "FILE"),
        ("top", "--once", "--snapshot", "FILE"),
    )
    on_file(content, commands[len(content) % len(commands)])


def on_file(content: bytes, arguments: tuple[str, ...]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "input.file"
        path.write_bytes(content)
        check_command(*(str(path) if each == "FILE" else each for each in arguments))


def make_snapshot(random: Random) -> bytes:
    content = mutated_document(random, corpus.snapshot(), form="any")
    if random.random() < 0.15:
        content = mutated_bytes(random, content, ())
    return corpus.packed(content) if random.random() < 0.2 else content


def run_scenario(content: bytes) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "scenario.yaml"
        path.write_bytes(content)
        (path.parent / "batch-trace.csv").write_bytes(corpus.trace_csv())
        try:
            document, name, place = load(path)
            plan_runs(
                document,
                name,
                place,
                sets=["nodepool/default.spec.weight=5"],
                sweeps=[],
                seeds="2",
                lasts="1h",
                compare=False,
            )
        except ScenarioInvalid as error:
            _check(bool(error.faults) and all(fault.problem for fault in error.faults), error)
        except ValueError as error:
            _check(bool(str(error)), error)


def run_set(content: bytes) -> None:
    """Settings of `simulate --set` and `--sweep`."""
    text = content.decode("utf-8", "replace")
    for read in (read_setting, read_sweep):
        with suppress(ScenarioInvalid):
            read(text)


def run_trace(content: bytes) -> None:
    text = content.decode("utf-8", "replace")
    for name in ("trace.csv", "trace.json"):
        try:
            read_trace(text, name)
        except ScenarioInvalid as error:
            _check(all(fault.path.startswith(name) for fault in error.faults), error)


# What a cluster and a cloud say


def run_kubeconfig(content: bytes) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "config.yaml"
        path.write_bytes(content)
        for context in (None, "c", "d", "f"):
            try:
                read_access(choose(load_kubeconfig((path,), may_miss=False), context))
            except ApiError as error:
                _check("config.yaml" in str(error), error)


def run_exec_answer(content: bytes) -> None:
    with suppress(ApiError):
        ExecCredentialSource(command="x")._parse(content)


def run_queue(content: bytes) -> None:
    with suppress(Malformed):
        message = parse_message(content.decode("utf-8", "replace"))
        at = message.interruption.at if message.interruption is not None else None
        if at is not None and message.sent_at is not None:
            assert at.tzinfo is not None
            (at - message.sent_at).total_seconds()


def run_watch(content: bytes) -> None:
    """Bytes of a watch in chunks, and the same bytes as a list."""
    call = watch_call(POD, "1", ListOptions(), 60)
    lines, sharing = LineReader(1 << 16), Interner()
    with suppress(ApiError):
        for start in range(0, len(content), 997):
            for line in lines.feed(content[start : start + 997]):
                with suppress(ApiError):
                    change_of(POD, line, call, sharing)
    with suppress(ApiError):
        ListPages(POD, sharing).add(content)


def run_staged(content: bytes) -> None:
    with suppress(*UNDECODABLE):
        node = decode(NODE, content)
        if isinstance(node, Node):
            StagedInterruptions(None, _Noon())._delivery(node)


class _Noon:
    def now(self):
        return corpus.NOON


def run_instance_types(content: bytes) -> None:
    with suppress(InstanceTypesInvalid):
        load_instance_types(content)
    with TemporaryDirectory() as folder, suppress(InstanceTypesInvalid):
        path = Path(folder) / "types.json"
        path.write_bytes(content)
        load_instance_types(path)


# Values, settings and the ledger


def run_values(content: bytes) -> None:
    text = content.decode("utf-8", "replace")
    for read in (Quantity.parse, Duration.parse, Delay.parse):
        with suppress(ValueError):
            value = read(text)
            assert str(value)
            assert repr(value)
            if isinstance(value, Quantity):
                assert [value.milli, value.units, value.number, value.canonical]
    with suppress(ValueError):
        schedule = CronSchedule.parse(text)
        schedule.next_after(corpus.NOON)
        schedule.last_at_or_before(corpus.NOON, timedelta(days=2))
    for nodes in (text, "10%"):
        with suppress(ValueError):
            budget = parse_budget(BudgetSpec(nodes=nodes, schedule=text, duration=None))
            assert [budget.limit(10), budget.opens_at(corpus.NOON), budget.closes_at(corpus.NOON)]
    read_pause(text, "x", corpus.NOON)


def run_settings(content: bytes) -> None:
    lines = content.decode("utf-8", "replace").split("\n")
    written = dict(line.split("=", 1) for line in lines if "=" in line)
    with suppress(ValueError):
        read_settings(written).options  # noqa: B018 - it must not raise
    arguments = [f"--{name.replace('_', '-')}={value}" for name, value in written.items()]
    code, out, err = run_command("plan", "--snapshot", "/nowhere", *arguments)
    assert code == 2
    assert all(each.isprintable() or each in "\n\t" for each in out + err)


def make_settings(random: Random) -> bytes:
    chosen = random.sample([*setting_fields()], 4)
    lines = [f"{setting.name}={random.choice((str(setting.default), *TEXTS))[:3000]}" for setting in chosen]
    content = "\n".join(lines).encode("utf-8", "surrogatepass")
    return mutated_bytes(random, content, ()) if random.random() < 0.2 else content


def run_ledger(content: bytes) -> None:
    form = ("text", "wide", "json", "yaml")[len(content) % 4]
    with_file("ledger.db", content, "history", "--ledger", "FILE", "-o", form)
    on_file(content, ("history", "a", "--ledger", "FILE", "-o", form))


def make_ledger(random: Random) -> bytes:
    if random.random() < 0.4:
        return mutated_bytes(random, corpus.ledger(), (b"",))

    def change(connection) -> None:
        columns = ("at", "act", "reason", "why", "pod_names", "outcome", "ended_at", "note", "cost_before", "pods")
        for _ in range(3):
            column, value = random.choice(columns), random.choice((*TEXTS, 0, -1, 1e308, 2**62))
            with suppress(Exception):
                connection.execute(f"UPDATE decision SET {column} = ?", (value,))  # noqa: S608 - only our own text
        with suppress(Exception):
            connection.execute("UPDATE considered SET packed = ?", (random.randbytes(50),))
        with suppress(Exception):
            connection.execute(
                "UPDATE node SET node = ?, price = ?", (random.choice(TEXTS), random.choice((None, 1e308, -1)))
            )

    return corpus.ledger_rows(change)


def texts(*given: str):
    """Makes an input of one line: a text as it is, or mutated."""
    starts = tuple(each.encode("utf-8", "surrogatepass") for each in (*given, *TEXTS))

    def make(random: Random) -> bytes:
        return mutated_bytes(random, random.choice(starts), starts) if random.random() < 0.8 else random.choice(starts)

    return make


def make_watch(random: Random) -> bytes:
    objects = corpus.objects_of_watches()
    some = tuple(random.sample(objects, 3))
    content = corpus.watch_lines(some)
    if random.random() < 0.5:
        line = {"type": random.choice(("ADDED", "ERROR", "BOOKMARK", "x")), "object": random.choice(objects)}
        content += mutated_document(random, line, form="json") + b"\n"
    if random.random() < 0.3:
        page = {"metadata": {"resourceVersion": "5", "continue": "x"}, "items": [*some]}
        content = mutated_document(random, page, form="json")
    return mutated_bytes(random, content, ()) if random.random() < 0.6 else content


def _messages():
    return corpus.MESSAGES


TARGETS = {
    target.name: target
    for target in (
        Target("validate", either(corpus.manifests), run_validate, 150),
        Target("budgets", either(corpus.manifests), run_budgets, 40),
        Target("codec", either(lambda: (*corpus.manifests(), *corpus.objects_of_watches())), run_codec, 200),
        Target("snapshot", make_snapshot, run_snapshot, 60),
        Target("decisions", lambda random: nudged_document(random, corpus.snapshot()), run_snapshot, 60),
        Target("scenario", either(corpus.scenarios, form="yaml"), run_scenario, 80),
        Target(
            "set",
            texts("nodepool/a.spec.x=1,2", "scenario.seed=3", 'nodepool/a.spec["x.y"][0]=[a,b],{c: d}'),
            run_set,
            150,
        ),
        Target("trace", either(lambda: (corpus.TRACE_JSON,), (corpus.trace_csv(),), "json"), run_trace, 200),
        Target("kubeconfig", either(lambda: (corpus.KUBECONFIG,)), run_kubeconfig, 150),
        Target("exec-answer", either(lambda: (corpus.EXEC_ANSWER,), form="json"), run_exec_answer, 150),
        Target("queue", either(_messages, form="json"), run_queue, 300),
        Target("watch", make_watch, run_watch, 200),
        Target("staged", either(corpus.objects_of_watches, form="json"), run_staged, 100),
        Target("instance-types", either(lambda: (corpus.INSTANCE_TYPES,), form="json"), run_instance_types, 150),
        Target("values", texts("1h30m", "500m", "10%", "0 9 * * mon-fri", "2026-01-05T12:00:00Z"), run_values, 500),
        Target("settings", make_settings, run_settings, 60),
        Target("ledger", make_ledger, run_ledger, 40),
        PAGE,
    )
}
