"""The vocabulary of the random clusters: few names, so that rules meet what they speak of."""

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
ARCH = "kubernetes.io/arch"
TEAM = "example.com/team"
RACK = "example.com/rack"
SIZE = "example.com/size"  # a number, mostly
GPU = "example.com/gpu"
DRIVER = "disk.example.com"
GATE = "example.com/hold"
ZONES = ("zone-a", "zone-b", "zone-c")
RACKS = ("r1", "r2")
TEAMS = ("red", "blue")
SIZES = ("2", "8", "16", "016", "large")
APPS = ("web", "db", "job")
NAMESPACES = {"agree-front": {"tier": "front"}, "agree-back": {"tier": "back"}, "agree-lab": {}}
PRIORITIES = {"agree-high": 1000, "agree-low": -10}
RUNTIME = "agree-boxed"
RUNTIME_OVERHEAD = {"cpu": "120m", "memory": "64Mi"}
THEMES = ("nodes", "taints", "containers", "ports", "volumes", "affinity", "anti", "spread", "spread")
