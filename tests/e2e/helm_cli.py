"""The pinned Helm on a real cluster: renders, installs, upgrades and uninstalls the charts, and runs shell blocks."""

import os
import shutil
import subprocess
from pathlib import Path

import yaml

from e2e.components import build

ROOT = Path(__file__).parents[2]
CHARTS = ROOT / "charts"
NAMESPACE = "dovetail"


class Helm:
    """Helm with a home directory of its own; the working directory has the charts where the guides expect them."""

    def __init__(self, cluster, directory):
        self.directory = directory
        shutil.copytree(CHARTS, directory / "charts")
        programs = [str(build.binaries_dir(recipe)) for recipe in (build.HELM, build.CONTROL_PLANE)]
        self.environment = {
            "PATH": os.pathsep.join([*programs, os.environ["PATH"]]),
            "HOME": str(directory),
            "KUBECONFIG": str(cluster.kubeconfig),
        }

    def run(self, *argv, check=True):
        """Run a program; the completed process."""
        done = subprocess.run(
            argv, cwd=self.directory, env=self.environment, capture_output=True, text=True, check=False
        )
        assert not check or done.returncode == 0, f"{' '.join(argv)}: {done.stdout}{done.stderr}"
        return done

    def __call__(self, *arguments):
        """Run Helm; what it prints."""
        return self.run("helm", *arguments).stdout

    def shell(self, block):
        """Run a block of shell from a guide; the first command that fails ends it."""
        return self.run("sh", "-euc", block).stdout

    def render(self, *arguments, chart="dovetail", namespace=NAMESPACE):
        """The objects that the chart renders, without a cluster."""
        text = self("template", "dovetail", f"charts/{chart}", "--namespace", namespace, *arguments)
        return [each for each in yaml.safe_load_all(text) if each]

    def previous(self, chart):
        """A package of the chart with an older version, and with an object that the present chart no longer has."""
        copy = self.directory / "previous" / chart
        shutil.copytree(CHARTS / chart, copy)
        described = yaml.safe_load((copy / "Chart.yaml").read_text())
        (copy / "Chart.yaml").write_text(yaml.safe_dump({**described, "version": "0.0.9", "appVersion": "0.0.9"}))
        removed = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"{chart}-removed"}}
        (copy / "templates" / "removed.yaml").write_text(yaml.safe_dump(removed))
        self("package", str(copy), "--destination", str(self.directory))
        return f"{chart}-0.0.9.tgz"
