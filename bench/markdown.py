"""Tables in Markdown."""

from collections.abc import Iterable


def print_table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    names = list(header)
    print(line(names))
    print("|---" * len(names) + "|")
    for row in rows:
        print(line(row))
    print(flush=True)


def line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def verdict(is_met: bool) -> str:
    return "met" if is_met else "**not met**"
