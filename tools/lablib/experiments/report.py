"""A report: Markdown out of tables, bars and conclusions, each computed from the figures."""

from dataclasses import dataclass, field
from statistics import median


def table(header, rows):
    """Markdown; numbers are to come formatted. The first column is text, the others are figures."""
    lines = ["| " + " | ".join(header) + " |",
             "|" + "---|" + "---:|" * (len(header) - 1)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def bar(what, value, limit, at_least=True, unit=""):
    """One bar of the issue: reached or missed."""
    reached = value >= limit if at_least else value <= limit
    return {"what": what, "value": value, "bar": limit, "at_least": at_least, "unit": unit,
            "reached": reached}


def bar_text(each):
    places = 3 if each["unit"] == "x" else 2
    return (f"{each['what']}: {each['value']:.{places}f}{each['unit']}; the bar is "
            f"{each['bar']:g}{each['unit']} at {'least' if each['at_least'] else 'most'}: "
            f"**{'reached' if each['reached'] else 'MISSED'}**")


def size_text(size_bytes):
    for factor, unit in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size_bytes >= factor and size_bytes % factor == 0:
            return f"{size_bytes // factor} {unit}"
    return f"{size_bytes} B"


def middle(figures, name, size_bytes, key):
    """The median over the rounds of one point."""
    return median(sample[key] for sample in figures["points"][name][str(size_bytes)])


@dataclass
class Report:
    """`parts` are headed pieces of Markdown, (heading, text); `bars` as of bar()."""

    title: str
    measured: str  # what was measured and how, in sentences
    parts: list = field(default_factory=list)
    bars: list = field(default_factory=list)
    conclusions: list = field(default_factory=list)

    def add(self, heading, text):
        self.parts.append((heading, text))

    def markdown(self, facts, pictures):
        """`facts` are lines on machine and repetitions, `pictures` names of files beside it."""
        blocks = [f"# {self.title}", self.measured, "\n".join(f"- {fact}" for fact in facts)]
        if self.conclusions:
            blocks += ["## What it shows", "\n".join(f"- {each}" for each in self.conclusions)]
        if self.bars:
            blocks += ["## Bars", "\n".join(f"- {bar_text(each)}" for each in self.bars)]
        blocks += [f"![{name}]({name})" for name in pictures]
        for heading, text in self.parts:
            blocks += [f"## {heading}", text]
        return "\n\n".join(blocks) + "\n"
