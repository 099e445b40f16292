"""Events and metrics of a pass: a recorder that keeps events, metrics that keep values, and a pass with both."""

from collections import Counter
from types import SimpleNamespace

from builders import NOON
from dovetail.controllers.disruption_events import DisruptionEvents
from dovetail.core.disruption.methods import METHODS
from dovetail.core.disruption.pass_context import PassContext as Pass
from dovetail.core.disruption.planner import plan_pass


class Listener:
    """A recorder that keeps published events, and a clock."""

    def __init__(self):
        self.notices = []
        self.at = NOON

    def publish(self, notice):
        self.notices.append(notice)

    def now(self):
        return self.at

    def said(self, reason):
        return {(each.kind.name, each.message) for each in self.notices if each.reason == reason}


def told(found, listener=None, events=None):
    """What one pass over all methods has to tell."""
    listener = listener or Listener()
    events = events or DisruptionEvents(SimpleNamespace(recorder=listener, clock=listener))
    look = Pass(found)
    plan = plan_pass(look, thorough=True)
    for method in METHODS:
        events.report_budgets(method.reason, look)
        events.report_refusals(method.name, plan.refusals_by_method[method.name], look)
        for command in plan.commands_by_method[method.name]:
            events.report_candidate(command, look)
    return listener


class Figures:
    """Metrics as plain numbers."""

    def __init__(self):
        self.counts = Counter()
        self.gauges = {}

    def count(self, name, by=1.0, /, **labels):
        self.counts[name, frozenset(labels.items())] += by

    def observe(self, name, _seconds, /, **labels):
        self.counts[name, frozenset(labels.items())] += 1

    def show(self, name, rows, /):
        self.gauges[name] = dict(rows)

    def counted(self, name, **labels):
        return self.counts[name, frozenset(labels.items())]
