"""KWOKNodeClass: the kwok part of a NodePool's template, for simulated nodes."""

from dovetail.model.duration import Duration
from dovetail.model.kube_object import ApiStruct, Condition, KubeObject


class KWOKNodeClassSpec(ApiStruct, frozen=True, kw_only=True):
    """How simulated nodes behave."""

    node_registration_delay: Duration | None = None


class KWOKNodeClassStatus(ApiStruct, frozen=True, kw_only=True):
    """Conditions of the class; the CRD schema defaults it to Ready."""

    conditions: tuple[Condition, ...] = ()


class KWOKNodeClass(KubeObject, frozen=True, kw_only=True):
    """A KWOKNodeClass."""

    spec: KWOKNodeClassSpec = KWOKNodeClassSpec()
    status: KWOKNodeClassStatus = KWOKNodeClassStatus()
