"""Whether what runs on Spark can run here: PySpark and what comes with it, and a Java."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from importlib.util import find_spec

from distributary.errors import DistributaryError

OLDEST_JAVA = 17
MODULES = ("pyspark", "pandas", "google.protobuf")
JAVA_HELP = """\
    Debian, Ubuntu   sudo apt-get install default-jre-headless
    Fedora           sudo dnf install java-21-openjdk-headless
    macOS            brew install openjdk@17
or set JAVA_HOME to one that you have"""


def require_engine(*, java: bool = True) -> None:
    """Raise an error that says what to install when this machine cannot run Spark.

    Without `java`, only what it takes to reach a Spark that runs elsewhere.
    """
    missing = [name for name in MODULES if not _is_installed(name)]
    if missing:
        raise DistributaryError(
            f"this runs on Spark and needs {' and '.join(missing)}, which is not installed: "
            "pip install 'distributary[spark]'"
        )
    found = java_version() if java else OLDEST_JAVA
    if found is None or found < OLDEST_JAVA:
        state = "there is none" if found is None else f"the one here is version {found}"
        raise DistributaryError(
            f"this runs on Spark, which needs a Java {OLDEST_JAVA} or newer; {state}:\n{JAVA_HELP}"
        )


def java_version() -> int | None:
    """The version of the Java that Spark would start, or None when there is none."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if java is None:
        return None
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parsed_version(told.stderr + told.stdout)


def parsed_version(text: str) -> int | None:
    """The number in what `java -version` says.

    >>> parsed_version('openjdk version "17.0.15" 2025-04-15'), parsed_version('java version "1.8.0_402"')
    (17, 8)
    """
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found[1]) if found else None


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False
