"""What a node of the lab finds in its environment."""

import os
import re
import subprocess
from pathlib import Path


def sanitizer_libraries(program):
    """The sanitizer runtimes that `program` is linked with. nbdkit is not, so they are preloaded
    for it; empty in a normal build."""
    listing = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False)
    return re.findall(r"=> (\S*/lib(?:asan|tsan)\.so\S*)", listing.stdout)


def node_environment(program, node, build, extra=None):
    """Of `program`, which runs `node` of a lab: the node's own variables, and what sanitizers need."""
    env = {**os.environ, **node["env"], **(extra or {})}
    preload = sanitizer_libraries(program)
    if preload:
        first = Path(build) / "tests" / "system" / "libsanitizer_first.so"
        own = [env["LD_PRELOAD"]] if env.get("LD_PRELOAD") else []
        env["LD_PRELOAD"] = ":".join([*preload, str(first), *own])
        reports = Path(node["log"]).parent / "sanitizer"
        # nbdkit itself is not built for leak checking and unloads plugins before it runs.
        options = f"log_path={reports}:exitcode=86:abort_on_error=0"
        env.setdefault("ASAN_OPTIONS", options + ":detect_leaks=0")
        env.setdefault("UBSAN_OPTIONS", options + ":print_stacktrace=1")
        env.setdefault("TSAN_OPTIONS", options + ":halt_on_error=0")
    return env
