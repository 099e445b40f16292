"""Bugs in a cluster with several providers, or with none that can run."""

from planted.bug import Bug

BUGS = (
    Bug(
        id="unused-provider-listed",
        says="Garbage collection lists the instances of a provider that nothing refers to.",
        file="controllers/garbage_collection.py",
        before="        await self._in_use.wait()\n",
        after="",
        tests=("tests/scenarios/test_providers.py",),
    ),
    Bug(
        id="unusable-provider-managed",
        says="NodeClaims of a provider that cannot run are managed all the same.",
        file="controllers/context.py",
        before="        return self.cloud.supports(claim.spec.node_class_ref)\n",
        after="        return True\n",
        tests=("tests/scenarios/test_providers.py",),
    ),
    Bug(
        id="foreign-labels-match",
        says="A pod that requires a label of one provider fits the instance types of another.",
        file="cloud/router.py",
        before="        return tuple([replace(each, requirements=each.requirements.add(absent)) for each in types])\n",
        after="        return tuple(replace(each) for each in types) if absent else types\n",
        tests=("tests/cloud/test_router.py",),
    ),
    Bug(
        id="foreign-repair-policies",
        says="A node is repaired by the policies of another provider.",
        file="model/repair.py",
        before="        return not self.node_class_label or self.node_class_label in labels\n",
        after="        return True\n",
        tests=("tests/cloud/test_router.py",),
    ),
    Bug(
        id="missing-catalog-is-nothing",
        says="The plan for NodePools without instance types says that nothing would be disrupted.",
        file="cli/view/plan.py",
        before='    elif not document["missingCatalogs"]:\n',
        after="    else:\n",
        tests=("tests/cli/test_missing_catalogs.py",),
    ),
)
