"""Bugs in the client of the API server."""

from planted.bug import Bug

BUGS = (
    Bug(
        id="gateway-timeout-is-a-no",
        says="A write that timed out at a gateway counts as not written.",
        file="kube/requests.py",
        before="    return OutcomeUnknown(message) if call.writes and gave_up else Unavailable(message)\n",
        after="    return OutcomeUnknown(message) if gave_up and not call.writes else Unavailable(message)\n",
        tests=("tests/kube/test_transport.py", "tests/kube/test_client.py"),
    ),
    Bug(
        id="lost-answer-is-a-no",
        says="A write whose connection broke counts as not written.",
        file="kube/transport.py",
        before="if call.writes and attempt.sent else Unavailable",
        after="if call.writes and not attempt.sent else Unavailable",
        tests=("tests/kube/test_transport.py",),
    ),
    Bug(
        id="only-the-first-page",
        says="A list ends after its first page.",
        file="kube/client.py",
        before="            if not pages.meta.continue_:\n",
        after="            if pages.meta.continue_ or not page:\n",
        tests=("tests/kube/test_client.py",),
    ),
    Bug(
        id="expired-pages-kept",
        says="Pages that expire during a list are requested again page by page, and the list never ends.",
        file="kube/client.py",
        before="            pages = await self._list_pages(kind, options, 0)\n",
        after="            pages = await self._list_pages(kind, options, self._transport.limits.page_size)\n",
        tests=("tests/kube/test_client.py",),
    ),
    Bug(
        id="deleted-by-name",
        says="Objects are deleted by name, without the uid precondition.",
        file="kube/requests.py",
        before='        body["preconditions"] = {"uid": deletion.uid}\n',
        after='        body["preconditions"] = {}\n',
        tests=("tests/kube/test_client.py",),
    ),
    Bug(
        id="status-patch-without-version",
        says="A patch of the status is sent without its resourceVersion precondition.",
        file="kube/requests.py",
        before="    if patch.resource_version:\n",
        after="    if patch.resource_version and not patch.subresource:\n",
        tests=("tests/kube/test_client.py",),
    ),
    Bug(
        id="lease-waits-its-turn",
        says="Renewals of the Lease wait for the rate limit behind all other requests.",
        file="kube/requests.py",
        before="""\
        content_type=_MERGE_PATCH,
        urgent=kind == LEASE,
""",
        after="        content_type=_MERGE_PATCH,\n",
        tests=("tests/kube/test_ratelimit.py", "tests/kube/test_transport.py"),
    ),
    Bug(
        id="no-bookmarks",
        says="Watches do not request bookmarks.",
        file="kube/requests.py",
        before='        "allowWatchBookmarks": "true",\n',
        after="",
        tests=("tests/kube/test_watch.py",),
    ),
)
