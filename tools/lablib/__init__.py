"""Two twinblock nodes on this machine: what tools/lab, the system tests, the benchmark and the
demo share. Standard library only; needs no root."""

from .control import ControlError, NotReachable, request
from .lab import Lab, LabError

__all__ = ["ControlError", "Lab", "LabError", "NotReachable", "request"]
