"""What the ledger is told of a pass: everything refused is counted, and of every kind some are named."""

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from acceptance.fleet import cluster, running, worker
from builders import nodepool
from dovetail.controllers.ledger_entries import MAX_NAMED_REFUSALS, considered_for_command, refused_pods
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.disruption.planner import plan_pass
from dovetail.model.kube_object import Key
from dovetail.model.refusal import Refusal, RefusalCode, node_ref, pod_ref

EMPTY_COMMAND = SimpleNamespace(replacements=(), candidates=())
KINDS = st.dictionaries(
    st.sampled_from(["expiration", "drift", "emptiness"]),
    st.dictionaries(
        st.sampled_from(["Static", "NoSet", "Nominated", "NotDrifted"]), st.sampled_from([1, 3, 60, 250]), max_size=4
    ),
)


def said(codes):
    return [
        Refusal(RefusalCode(code), node_ref(f"{code}-{number}"))
        for code, count in codes.items()
        for number in range(count)
    ]


@given(KINDS)
def test_all_are_counted_and_every_kind_is_named_within_the_bound(kinds):
    refusals = {method: said(codes) for method, codes in kinds.items()}
    found = considered_for_command(EMPTY_COMMAND, refusals, None)
    assert {(each.method, each.code): each.nodes for each in found.counts} == {
        (method, code): count for method, codes in kinds.items() for code, count in codes.items()
    }
    total = sum(map(len, refusals.values()))
    assert len(found.refusals) == min(MAX_NAMED_REFUSALS, total)
    assert {(each.method, each.code) for each in found.refusals} == {(each.method, each.code) for each in found.counts}
    assert len({(each.method, each.node) for each in found.refusals}) == len(found.refusals)
    assert [each.method for each in found.refusals] == sorted(
        (each.method for each in found.refusals), key=list(refusals).index
    )


def test_a_command_says_what_it_uses_of_its_budget_after_those_before_it():
    snapshot = cluster(
        *(worker(name) for name in "abc"),
        worker("d", running("x", "d")),
        pools=[nodepool(disruption={"consolidateAfter": "0s", "budgets": [{"nodes": "3"}]})],
    )
    context = PassContext(snapshot)
    plan = plan_pass(context)
    (command,) = plan.commands
    alone = considered_for_command(command, plan.refusals_by_method, context)
    after = considered_for_command(command, plan.refusals_by_method, context, [command])
    (first,), (second,) = alone.budgets, after.budgets
    assert (first.nodepool, first.used, first.limit) == ("default", len(command.candidates), 3)
    assert second.used == 2 * first.used
    assert "d" in {each.node for each in alone.refusals}


def test_pods_that_are_none_of_our_business_are_not_counted():
    refusals = [
        Refusal(RefusalCode.CONFIGURED_ELSEWHERE, pod_ref(Key("a", "b"))),
        Refusal(RefusalCode.UNSCHEDULABLE, pod_ref(Key("shop", "web")), detail="too large"),
    ]
    found = refused_pods(refusals)
    assert [(each.code, each.nodes) for each in found.counts] == [("Unschedulable", 1)]
    assert found.refusals[0].node == "shop/web"
