"""`dovetail` as a process of its own that serves the page, and its JSON, and the same from the command line."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

DOVETAIL = str(Path(sys.executable).with_name("dovetail"))
ADDRESS = re.compile(r"http://\S+/")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def alone(place):
    """An environment in which nothing of the machine's user is read."""
    return {**os.environ, "HOME": str(place), "XDG_STATE_HOME": str(place), "KUBECONFIG": str(place / "none")}


@contextmanager
def serving(place, *arguments, ready="Dashboard:"):
    """A `dovetail` command that serves the page; yields its address once it says it is ready."""
    process = subprocess.Popen(
        [DOVETAIL, *map(str, arguments)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=alone(place),
    )
    lines, found = [], threading.Event()

    def read():
        for line in process.stderr:
            lines.append(line)
            if ready in line and ADDRESS.search(line):
                found.set()
        found.set()

    reader = threading.Thread(target=read)
    reader.start()
    try:
        assert found.wait(180)
        assert process.poll() is None, "".join(lines)
        yield next(match.group() for line in lines if (match := ADDRESS.search(line)))
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        reader.join()
        process.stderr.close()


def fetch_bytes(address, path):
    with urllib.request.urlopen(address + path, timeout=60) as answer:  # noqa: S310 - our own page
        return answer.read()


def fetch(address, path):
    return json.loads(fetch_bytes(address, path))


def settled(address, at="", within=120):
    """The page's data once the plan is in it and, where it is said, the story has come to its end."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        found = fetch(address, "api/cluster")
        if "planned" in found["summary"] and found["summary"]["at"].endswith(at):
            return found
        time.sleep(0.2)
    raise AssertionError("no plan was shown in time")


def told(place, *arguments):
    """What a command prints as JSON."""
    command = [DOVETAIL, *map(str, arguments), "-o", "json"]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, env=alone(place))
    assert ended.returncode == 0, f"{command}: {ended.stderr}"
    return json.loads(ended.stdout)
