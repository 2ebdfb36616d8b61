"""Reads a Dockerfile by its stages' names.

dockerfile.py body FILE STAGE           prints the stage's instructions
dockerfile.py check FILE STAGE ARCHIVE  compares the image in an archive of `docker save` with what the stage says
"""

from __future__ import annotations

import json
import re
import sys
import tarfile
from pathlib import Path
from typing import Any

# What a stage must say about how its image runs. All other entries of an image's configuration come from elsewhere.
SETTINGS = ("Cmd", "Entrypoint", "ExposedPorts", "Healthcheck", "Labels", "StopSignal", "User", "Volumes", "WorkingDir")
UNITS = {"ms": 10**6, "s": 10**9, "m": 60 * 10**9}


def instructions(text: str) -> list[tuple[str, str]]:
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    return [(line.split()[0].upper(), line.partition(" ")[2].strip()) for line in joined.splitlines()]


def stage(text: str, name: str) -> list[tuple[str, str]]:
    """The instructions of the stage that begins with `FROM … AS name`."""
    found: list[tuple[str, str]] | None = None
    for instruction, value in instructions(text):
        if instruction == "FROM":
            if found is not None:
                break
            if re.search(rf"\sAS\s+{re.escape(name)}$", value, re.IGNORECASE):
                found = []
        elif found is not None:
            found.append((instruction, value))
    if not found:
        raise SystemExit(f"the Dockerfile has no stage {name}, or nothing in it")
    return found


def configuration(body: list[tuple[str, str]]) -> dict[str, Any]:
    """What Docker writes into an image's configuration for these instructions. Refuses a stage that says too little or too much."""
    found: dict[str, Any] = {"Labels": {}, "ExposedPorts": {}, "Volumes": {}}
    for name, value in body:
        match name:
            case "ENTRYPOINT" | "CMD":
                found[name.capitalize()] = json.loads(value)
            case "USER":
                found["User"] = value
            case "WORKDIR":
                found["WorkingDir"] = value
            case "STOPSIGNAL":
                found["StopSignal"] = value
            case "VOLUME":
                found["Volumes"] |= {path: {} for path in value.split()}
            case "EXPOSE":
                found["ExposedPorts"] |= {port if "/" in port else f"{port}/tcp": {} for port in value.split()}
            case "LABEL":
                found["Labels"] |= dict(re.findall(r'(\S+?)="([^"]*)"', value))
            case "HEALTHCHECK":
                found["Healthcheck"] = healthcheck(value)
            case _:
                raise SystemExit(f"{name} doesn't belong into a stage that only says how the image runs")
    if missing := [key for key in SETTINGS if not found.get(key)]:
        raise SystemExit(f"the Dockerfile says nothing about {', '.join(missing)}")
    return found


def healthcheck(value: str) -> dict[str, Any]:
    options, _, command = value.partition("CMD ")
    given = dict(re.findall(r"--([a-z-]+)=(\S+)", options))
    found: dict[str, Any] = {"Test": ["CMD", *json.loads(command)]}
    for option, key in (("interval", "Interval"), ("timeout", "Timeout"), ("start-period", "StartPeriod")):
        if option in given:
            number, unit = re.fullmatch(r"(\d+)(ms|s|m)", given[option]).groups()  # type: ignore[union-attr]
            found[key] = int(number) * UNITS[unit]
    if "retries" in given:
        found["Retries"] = int(given["retries"])
    return found


def differences(expected: dict[str, Any], archive: str) -> list[str]:
    with tarfile.open(archive) as image:

        def read(name: str) -> Any:
            return json.load(image.extractfile(name))  # type: ignore[arg-type]

        [manifest] = read("manifest.json")
        built = read(manifest["Config"])["config"]
    found = []
    for key in SETTINGS:
        wanted, is_now = expected[key], built.get(key)
        if key == "Labels":
            # The build adds the version.
            is_now = {name: text for name, text in (is_now or {}).items() if name in wanted}
        if is_now != wanted:
            found.append(f"{key} is {json.dumps(is_now)}, and the Dockerfile says {json.dumps(wanted)}")
    return found


def main(task: str, file: str, name: str, archive: str = "") -> None:
    body = stage(Path(file).read_text(), name)
    if task == "body":
        print("\n".join(f"{instruction} {value}" for instruction, value in body))
    elif found := differences(configuration(body), archive):
        raise SystemExit("\n".join([f"{archive} is not as {file} describes it:", *found]))


if __name__ == "__main__":
    main(*sys.argv[1:])
