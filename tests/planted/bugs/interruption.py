"""Bugs in the handling of interruption warnings."""

from planted.bug import Bug

BUGS = (
    Bug(
        id="acknowledged-unhandled",
        says="Messages are acknowledged although handling them failed.",
        file="controllers/interruption.py",
        before="[delivery for delivery, ok in zip(deliveries, handled, strict=True) if ok]",
        after="[delivery for delivery, _ in zip(deliveries, handled, strict=True)]",
        tests=("tests/scenarios/test_interruption.py",),
    ),
    Bug(
        id="interruption-without-deadline",
        says="The time at which an instance is reclaimed does not become the deadline of its drain.",
        file="core/lifecycle/interruption.py",
        before="    return at if at is not None and at > now else None\n",
        after="    return at if at is not None and at < now else None\n",
        tests=("tests/core/lifecycle/test_interruption.py", "tests/scenarios/test_interruption.py"),
    ),
    Bug(
        id="reclaimed-offering-bought-again",
        says="The offering of an instance that is reclaimed is not avoided.",
        file="controllers/interruption.py",
        before="        if response.avoids:\n",
        after="        if response.forceful:\n",
        tests=("tests/scenarios/test_interruption.py",),
    ),
    Bug(
        id="launched-claims-not-indexed",
        says="A warning finds no NodeClaim whose instance id was written after the claim was created.",
        file="controllers/interruption.py",
        before="if before is not None and after is not None and before.status.provider_id == after.status.provider_id:",
        after="if before is not None and after is not None:",
        tests=("tests/scenarios/test_interruption.py",),
    ),
    Bug(
        id="rebalance-always-drains",
        says="A rebalance recommendation drains the node although the setting allows only an event.",
        file="core/lifecycle/interruption.py",
        before="if rebalance and response is _REBALANCE else response",
        after="if response is _REBALANCE else response",
        tests=("tests/core/lifecycle/test_interruption.py", "tests/scenarios/test_interruption.py"),
    ),
    Bug(
        id="one-failure-gives-up",
        says="A warning is dropped after a failed call instead of being retried.",
        file="controllers/interruption.py",
        before="""\
                if attempt == ATTEMPTS:
                    raise
""",
        after="""\
                if attempt < ATTEMPTS:
                    return
""",
        tests=("tests/scenarios/test_interruption.py", "tests/scenarios/test_interruption_crashes.py"),
    ),
)
