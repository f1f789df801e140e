"""What goes wrong in a lab."""

# A state that has not come by then never will, on however busy a machine. No wait gives up earlier: what
# is promised in seconds is measured beside a reference, and no wait's business.
LIVENESS_S = 60.0


class LabError(Exception):
    """A message for the user: what failed and, where a node is to blame, the tail of its log."""
