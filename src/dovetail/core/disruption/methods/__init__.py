"""The disruption methods, in the order they are tried. One of them acts in a pass; then the next pass begins."""

from dovetail.core.disruption.methods.base import Method
from dovetail.core.disruption.methods.drift import Drift
from dovetail.core.disruption.methods.emptiness import Emptiness
from dovetail.core.disruption.methods.expiration import Expiration
from dovetail.core.disruption.methods.multi_node import MultiNode
from dovetail.core.disruption.methods.single_node import SingleNode

METHODS: tuple[Method, ...] = (Expiration(), Drift(), Emptiness(), MultiNode(), SingleNode())
