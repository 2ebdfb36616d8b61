"""Installs the pages of docs/ and the examples of deploy/ below a package's root, where the units already are. Links and paths in them
lead to what is installed. What isn't installed is named, but not linked.

documents.py ROOT
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
FOLDER = "usr/share/doc/bot-companion"
EXAMPLES = [
    "Caddyfile",
    "certbot-hook",
    "companion.toml",
    "grafana/dashboard.json",
    "haproxy.cfg",
    "nginx.conf",
    "postgresql.conf",
    "prometheus/alerts.yml",
    "prometheus/prometheus.yml",
]
UNITS = "usr/lib/systemd/system"
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def installed(root: Path, source: str) -> Path | None:
    """Where a file of the repository is in the package."""
    if source.startswith("docs/"):
        candidates = [f"{FOLDER}/{source.removeprefix('docs/')}"]
    elif source.startswith("deploy/"):
        name = source.removeprefix("deploy/")
        candidates = [f"{FOLDER}/examples/{name}", f"{UNITS}/{name}"]
    else:
        candidates = []
    return next((root / path for path in candidates if (root / path).is_file()), None)


def rewritten(root: Path, text: str) -> str:
    def link(match: re.Match[str]) -> str:
        mark, label, target = match.groups()
        path, hash_, fragment = target.partition("#")
        if not path or re.match(r"[a-z]+:", path):
            return match[0]
        found = installed(root, os.path.normpath(f"docs/{path}"))
        if found is None:
            return label
        return f"{mark}[{label.removeprefix('deploy/')}]({os.path.relpath(found, root / FOLDER)}{hash_}{fragment})"

    def path(match: re.Match[str]) -> str:
        found = installed(root, match[0])
        return f"/{found.relative_to(root)}" if found else match[0]

    return re.sub(r"(?<![\w./])deploy/[\w./@-]*\w", path, LINK.sub(link, text))


def main(target: str) -> None:
    root = Path(target).resolve()
    pages = sorted((REPOSITORY / "docs").glob("*.md"))
    texts = {page.name: page.read_text() for page in pages}
    folder = root / FOLDER
    for example in EXAMPLES:
        text = (REPOSITORY / "deploy" / example).read_text()
        (folder / "examples" / example).parent.mkdir(parents=True, exist_ok=True)
        (folder / "examples" / example).write_text(re.sub(r"(?<![\w./])docs/([\w-]+\.md)", rf"/{FOLDER}/\1", text))
    for name, text in texts.items():
        # Create all files first, because links are resolved against them.
        (folder / name).touch()
        for image in re.findall(r"\]\((images/[^)]+)\)", text):
            (folder / "images").mkdir(exist_ok=True)
            shutil.copyfile(REPOSITORY / "docs" / image, folder / image)
    for name, text in texts.items():
        (folder / name).write_text(rewritten(root, text))


if __name__ == "__main__":
    main(*sys.argv[1:])
