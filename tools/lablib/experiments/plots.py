"""Plots as PNG, by Debian's matplotlib, without a display."""

from ..error import LabError
from .report import size_text

WIDTH_IN, HEIGHT_IN = 8.0, 5.0
DPI = 110


def need_matplotlib():
    """Before anything is measured."""
    try:
        import matplotlib  # pylint: disable=import-outside-toplevel
    except ImportError as error:
        raise LabError("the plots need matplotlib, which is not installed (Debian: apt install "
                       "python3-matplotlib, or packaging/install-dependencies test)") from error
    matplotlib.use("Agg")


class Plot:
    """One picture with one or more panels side by side: `draw(axes)` gets them as a list."""

    def __init__(self, suffix, panels, draw):
        self.suffix = suffix  # "" for NAME.png, else NAME-suffix.png
        self.panels = panels
        self.draw = draw

    def save(self, path):
        from matplotlib import pyplot  # pylint: disable=import-outside-toplevel
        figure, axes = pyplot.subplots(1, self.panels, squeeze=False,
                                       figsize=(WIDTH_IN * (1 + 0.6 * (self.panels - 1)), HEIGHT_IN))
        try:
            self.draw(list(axes[0]))
            figure.tight_layout()
            figure.savefig(path, dpi=DPI, metadata={"Software": None})
        finally:
            pyplot.close(figure)


def size_axis(axis, sizes_bytes, name):
    """Powers of two, with their names."""
    axis.set_xscale("log", base=2)
    axis.set_xticks(sizes_bytes)
    axis.set_xticklabels([size_text(size) for size in sizes_bytes], rotation=60, fontsize=8)
    axis.set_xlabel(name)
    axis.grid(True, which="major", alpha=0.3)


def rate_axis(axis, rates, names, label):
    """Rates, each with its name, as far apart as one is a multiple of the other."""
    axis.set_xscale("log")
    axis.set_xticks(rates)
    axis.set_xticklabels(names)
    axis.minorticks_off()
    axis.set_xlabel(label)
    axis.grid(True, alpha=0.3)
    axis.legend(fontsize=8)


def grouped_bars(axis, groups, series, label):
    """`series` maps a name to one value a group; None leaves a gap."""
    width = 0.8 / max(1, len(series))
    for number, (name, values) in enumerate(series.items()):
        places = [at - 0.4 + width * (number + 0.5) for at in range(len(groups))]
        axis.bar(places, [value or 0 for value in values], width, label=name)
    axis.set_xticks(range(len(groups)))
    axis.set_xticklabels(groups, fontsize=8)
    axis.set_ylabel(label)
    axis.grid(True, axis="y", alpha=0.3)
    axis.legend(fontsize=8)
