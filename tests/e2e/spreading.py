"""Which e2e tests go to the same worker, and which go first.

Every worker has a control plane of its own. A file goes to one worker as a whole, since its tests may share what a
fixture of the module staged; tests of the files in `APART` share nothing and go one by one. What takes longest starts
first, or a worker would be left alone with it at the end.
"""

from xdist.scheduler import LoadScopeScheduling

APART = frozenset(
    {
        "test_action_fields.py",
        "test_brakes.py",
        "test_daemonset_requests.py",
        "test_deploy.py",
        "test_disruption.py",
        "test_faults.py",
        "test_helm.py",
        "test_hostname_spread.py",
        "test_leadership.py",
        "test_manual.py",
        "test_repair.py",
        "test_scale_out.py",
        "test_termination.py",
    }
)
LONGEST = (
    "test_brakes.py",
    "test_adoption.py",
    "test_adoption_aws.py",
    "test_scheduler_agreement.py",
    "test_life.py",
    "test_deploy.py",
    "test_load.py",
    "test_disruption.py",
    "test_reasons.py",
    "test_aws_queue.py",
    "test_faults.py",
    "test_aws_loss.py",
    "test_contract.py",
    "test_termination.py",
    "test_dashboard_auth.py",
    "test_leadership.py",
    "test_manual.py",
    "test_karpenter_chart.py",
    "test_action_fields.py",
    "test_helm.py",
)
"""Files of which a test, or the whole where it is not taken apart, takes half a minute or more."""


def file_of(nodeid: str) -> str:
    """The name of the file, without its directories."""
    return nodeid.partition("::")[0].rpartition("/")[2]


def unit_of(nodeid: str) -> str:
    """What goes to one worker together with this test."""
    return nodeid if file_of(nodeid) in APART else nodeid.partition("::")[0]


def rank_of(nodeid: str) -> int:
    """The lower, the sooner."""
    name = file_of(nodeid)
    return LONGEST.index(name) if name in LONGEST else len(LONGEST)


class Spreading(LoadScopeScheduling):
    """Hands out units in the order of their tests."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)
