"""Random storage as manifests: claims of every kind, the volumes and classes behind them, and attach limits."""

from e2e.agreement.wishes import expression
from e2e.agreement.words import DRIVER, GATE, HOSTNAME, NAMESPACES, ZONE, ZONES

BOUND = ("zonal", "either", "local", "plain")
CLAIMS = (*BOUND, "fresh", "floating", "eager", "leaving")
CLASS_BY_CLAIM = {"local": "agree-local", "fresh": "agree-zonal", "floating": "agree-anywhere", "eager": "agree-eager"}


def some_volumes(dice):
    if not dice.about("volumes", 0.75):
        return []
    names = dice.random.sample(
        (*BOUND, *BOUND, "fresh", "floating", "eager", "missing", "leaving"), dice.pick((1, 1, 2))
    )
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in dict.fromkeys(names)]
    if dice.maybe(0.2):
        volumes.append({"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": _claim_spec("fresh")}}})
    return volumes


def some_storage(dice, nodes):
    """Manifests by path, in the order they are made."""
    if "volumes" not in dice.themes:
        return []
    made = [("/apis/storage.k8s.io/v1/storageclasses", each) for each in _classes(dice)]
    limited = [node for node in nodes if dice.maybe(0.6)]
    made += [("/apis/storage.k8s.io/v1/csinodes", _limits(node, dice.pick((0, 1, 1, 2)))) for node in limited]
    for namespace in NAMESPACES:
        for name in CLAIMS:
            claim = {"metadata": {"name": name, "namespace": namespace}, "spec": _claim_spec(name)}
            if name == "leaving":
                claim["metadata"]["finalizers"] = [GATE]
            made.append((f"/api/v1/namespaces/{namespace}/persistentvolumeclaims", claim))
    places = [(namespace, name) for namespace in NAMESPACES for name in BOUND]
    made += [("/api/v1/persistentvolumes", _volume(dice, *place, nodes)) for place in places]
    return made


def leaving_claims(storage):
    """The paths of claims that somebody deletes and a finalizer keeps."""
    return tuple(f"{path}/leaving" for path, each in storage if each["metadata"]["name"] == "leaving")


def _claim_spec(name):
    return {
        "storageClassName": CLASS_BY_CLAIM.get(name, "agree-anywhere"),
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": "1Gi"}},
    }


def _classes(dice):
    wait = "WaitForFirstConsumer"
    topologies = [{"matchLabelExpressions": [{"key": ZONE, "values": [zone]}]} for zone in dice.some(ZONES)[:2]]
    written = (
        ("agree-zonal", DRIVER, wait, topologies),
        ("agree-anywhere", DRIVER, wait, []),
        ("agree-eager", DRIVER, "Immediate", []),
        ("agree-local", "kubernetes.io/no-provisioner", wait, []),
    )
    return [
        {
            "metadata": {"name": name},
            "provisioner": provisioner,
            "volumeBindingMode": mode,
            **({"allowedTopologies": places} if places else {}),
        }
        for name, provisioner, mode, places in written
    ]


def _limits(node, count):
    driver = {"name": DRIVER, "nodeID": node["metadata"]["name"], "allocatable": {"count": count}}
    return {"metadata": {"name": node["metadata"]["name"]}, "spec": {"drivers": [driver]}}


def _volume(dice, namespace, kind, nodes):
    name = f"{namespace}-{kind}"
    host = dice.pick(nodes)["metadata"]["labels"][HOSTNAME]
    terms = {
        "zonal": [[expression(ZONE, "In", dice.pick(ZONES))]],
        "either": [[expression(ZONE, "In", dice.pick(ZONES))], [expression(ZONE, "NotIn", *dice.some(ZONES))]],
        "local": [[expression(HOSTNAME, "In", host)]],
    }.get(kind, [])
    source = {
        "local": {"local": {"path": "/disk"}},
        "plain": {"nfs": {"server": "files.example.com", "path": "/"}},
    }.get(kind, {"csi": {"driver": DRIVER, "volumeHandle": name}})
    return volume(name, (namespace, kind), CLASS_BY_CLAIM.get(kind, "agree-anywhere"), terms, source)


def volume(name, claim, class_name, terms, source):
    """A volume for one claim, reachable from nodes that meet one of the terms; from everywhere without any."""
    namespace, claim_name = claim
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteMany"],
        "storageClassName": class_name,
        "claimRef": {"namespace": namespace, "name": claim_name},
        **source,
    }
    if terms:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": each} for each in terms]}}
    return {"metadata": {"name": name}, "spec": spec}
