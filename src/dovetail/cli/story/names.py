"""How things are called where room is short."""

import re


def short_name(node: str) -> str:
    """A kwok node by the name of its NodeClaim; any other by its own."""
    if not node.startswith("kwok-"):
        return node
    return node.removeprefix("kwok-").rpartition("-")[0] or node


def short_names(text: str) -> str:
    """A text with the kwok nodes in it called by the names of their NodeClaims."""
    return re.sub(r"kwok-[a-z0-9.-]+", lambda found: short_name(found.group()), text)


def counted(number: int, thing: str) -> str:
    """`1 pod`, `2 pods`."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def clock(seconds: float) -> str:
    """Hours, minutes and seconds since the start."""
    whole = int(seconds)
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}"
