"""What goes wrong in a lab."""


class LabError(Exception):
    """A message for the user: what failed and, where a node is to blame, the tail of its log."""
