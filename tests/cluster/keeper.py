"""The first process of a NamespaceHost: keeps its namespaces, and reaps what daemons leave. It ends with whoever
started it, and everything in there with it."""

import os
import signal
import sys

signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.write(sys.stdout.fileno(), b"ready\n")
while True:
    signal.pause()
