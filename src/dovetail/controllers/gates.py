"""The options that decisions depend on, read from the settings once and in one way for whoever decides.

Provisioning, disruption, plans and explanations take them from here, so that all of them simulate the same cluster.
"""

from dovetail.core.disruption.pass_context import Gates
from dovetail.settings import Settings


def read_gates(settings: Settings) -> Gates:
    """Feature gates and the preference policy; unknown gates are left to those who know them."""
    on = {}
    for entry in filter(None, (part.strip() for part in settings.feature_gates.split(","))):
        name, _, value = entry.partition("=")
        if value not in {"true", "false"}:
            raise ValueError(f"feature gate {entry!r} is not of the form Name=true or Name=false")
        on[name.strip()] = value == "true"
    return Gates(
        drift=on.get("Drift", True),
        spot_to_spot=on.get("SpotToSpotConsolidation", False),
        respect_preferences=settings.preference_policy == "Respect",
    )
