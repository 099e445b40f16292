"""KWOKNodeClass: the provider's half of a template when nodes are simulated."""

from dovetail.model.duration import Duration
from dovetail.model.kube_object import ApiStruct, Condition, KubeObject


class KWOKNodeClassSpec(ApiStruct, frozen=True, kw_only=True):
    """How simulated nodes behave."""

    node_registration_delay: Duration | None = None


class KWOKNodeClassStatus(ApiStruct, frozen=True, kw_only=True):
    """Readiness of the class; the schema makes it Ready from the start."""

    conditions: tuple[Condition, ...] = ()


class KWOKNodeClass(KubeObject, frozen=True, kw_only=True):
    """A KWOKNodeClass."""

    spec: KWOKNodeClassSpec = KWOKNodeClassSpec()
    status: KWOKNodeClassStatus = KWOKNodeClassStatus()
