"""How things are called where room is short."""


def short_name(node: str) -> str:
    """A kwok node by the name of its NodeClaim; any other by its own."""
    if not node.startswith("kwok-"):
        return node
    return node.removeprefix("kwok-").rpartition("-")[0] or node


def counted(number: int, thing: str) -> str:
    """`1 pod`, `2 pods`."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def clock(seconds: float) -> str:
    """Hours, minutes and seconds since the start."""
    whole = int(seconds)
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}"
