"""`manifests_test.py ADMIN FOLDER`: the files in deploy/ for containers and Kubernetes against the binary BOT_COMPANION, whose admin listener
of a running service is at ADMIN. The folder is for secrets."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import kubernetes_validate
import yaml

sys.path.insert(0, "packaging/image")
import dockerfile  # noqa: E402

BINARY = os.environ["BOT_COMPANION"]
DEPLOY = Path("deploy")
ADMIN, FOLDER = sys.argv[1], Path(sys.argv[2])
# How the image runs.
IMAGE = dockerfile.configuration(dockerfile.stage((DEPLOY / "Dockerfile").read_text(), "image"))
# The oldest and the newest release of Kubernetes whose schemas must accept the manifest.
KUBERNETES = ("1.28", "1.37")
# Valid values for a deployment's secrets, by file name.
SECRETS = {
    "client-secret": "not-a-secret",
    "keys": "one:" + base64.b64encode(bytes(32)).decode(),
    "store-url": "postgres://bot_companion:not-a-secret@db.example/bot_companion?sslmode=verify-full",
}
# What has no default, for a configuration that leaves it to the environment.
NEEDED = {
    "COMPANION_IDP_CLIENT_ID": "123456789012345678",
    "COMPANION_IDP_CLIENT_SECRET": "not-a-secret",
    "COMPANION_IDP_REDIRECT_URI": "https://dashboard.example/callback",
    "COMPANION_HTTP_ALLOWED_ORIGINS": "https://dashboard.example",
}


class Failed(Exception):
    pass


def expect(holds: object, what: str) -> None:
    if not holds:
        raise Failed(f"this is not so: {what}")


def run(*arguments: str, environment: dict[str, str] | None = None) -> str:
    """What the program prints. It sees none of our own configuration."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("COMPANION_")}
    done = subprocess.run(arguments, env=clean | (environment or {}), capture_output=True, text=True, timeout=120, check=False)
    expect(done.returncode == 0, f"{' '.join(arguments)} succeeds; it says: {done.stdout}{done.stderr}")
    return done.stdout


def checked(configuration: Path, environment: dict[str, str]) -> dict[str, Any]:
    """Lets the service check a configuration, which refuses options that don't exist. Returns all options by name."""
    ours = dict(environment)
    for name, value in environment.items():
        # The operator creates the file, and it is mounted elsewhere in the container.
        if name.startswith("COMPANION_") and name.endswith("_FILE"):
            secret = FOLDER / Path(value).name
            secret.write_text(SECRETS[secret.name])
            secret.chmod(0o600)
            ours[name] = str(secret)
    said = run(BINARY, "check", "--config", str(configuration), environment=ours)
    expect("The configuration is fine" in said, f"check accepts {configuration}")
    effective = json.loads(run(BINARY, "config", "--effective", "--json", "--config", str(configuration), environment=ours))
    return {entry["option"]: entry["value"] for entry in effective}


def check_command(command: list[str], where: str) -> None:
    """All words that the container runs: our program, one of its commands, options that exist, and the configuration at the usual place."""
    expect(len(command) > 1 and command[0] == "bot-companion", f"{where}: {command} runs a command of the service")
    words = command[1:]
    text = run(BINARY, words[0], "--help")
    for option in words[1:]:
        expect(not option.startswith("--") or re.search(rf"{option}\b", text), f"{where}: `{words[0]}` has the option {option}")
    if "--config" in words:
        path = words[words.index("--config") + 1]
        expect(path == "/etc/bot-companion/companion.toml", f"{where}: {path} is where the configuration lies")


def seconds(duration: str) -> float:
    number, unit = re.fullmatch(r"(\d+)(ms|s|m)", duration).groups()  # type: ignore[union-attr]
    return int(number) * {"ms": 0.001, "s": 1, "m": 60}[unit]


def check_grace(grace: float, configuration: dict[str, Any], where: str) -> None:
    needed = seconds(configuration["limits.drain_delay"]) + 2 * seconds(configuration["limits.drain_timeout"])
    expect(grace > needed, f"{where}: {grace} s are enough to stop, which may take {needed} s")


def port(configuration: dict[str, Any], name: str) -> int:
    return int(str(configuration[name]).rpartition(":")[2])


def check_image() -> None:
    check_command(IMAGE["Entrypoint"] + IMAGE["Cmd"], "Dockerfile")
    check_command(IMAGE["Healthcheck"]["Test"][1:], "Dockerfile's health check")
    configuration = checked(DEPLOY / "companion-container.toml", NEEDED)
    expect(IMAGE["ExposedPorts"] == {f"{port(configuration, 'http.listen')}/tcp": {}}, "the Dockerfile exposes the port of http.listen")
    expect(any(str(configuration["store.url"]).startswith(f"sqlite:{place}/") for place in IMAGE["Volumes"]), "the image's data is on its volume")


def check_compose(name: str) -> None:
    compose = yaml.safe_load((DEPLOY / name).read_text())
    ours = 0
    for service, entry in compose["services"].items():
        where = f"{name}, {service}"
        for secret in entry.get("secrets", []):
            expect(secret in compose["secrets"], f"{where}: the secret {secret} is declared")
        for network in entry.get("networks", {}):
            expect(network in compose["networks"], f"{where}: the network {network} is declared")
        mounted = {}
        for volume in entry.get("volumes", []):
            source, place = volume.split(":")[:2]
            expect((DEPLOY / source).is_file() if source.startswith(".") else source in compose["volumes"], f"{where}: {source} exists")
            mounted[place] = DEPLOY / source
        published = [int(line.split(":")[-1]) for line in entry.get("ports", [])]
        expect(all(line.startswith("127.0.0.1:") for line in entry.get("ports", [])), f"{where}: only this machine can connect")
        environment = entry.get("environment", {})
        if "bot-companion" in entry["image"]:
            ours += 1
            expect((DEPLOY / entry["build"]["context"] / entry["build"]["dockerfile"]).is_file(), f"{where}: the Dockerfile exists")
            configuration = checked(mounted.get("/etc/bot-companion/companion.toml", DEPLOY / "companion-container.toml"), environment)
            check_grace(seconds(entry["stop_grace_period"]), configuration, where)
            expect(all(number == port(configuration, "http.listen") for number in published), f"{where}: the published port is http.listen's")
            expect(all(f"{number}/tcp" in IMAGE["ExposedPorts"] for number in published), f"{where}: the published port is the image's")
            check_command(entry.get("entrypoint", IMAGE["Entrypoint"]) + entry.get("command", IMAGE["Cmd"]), where)
            expect(entry.get("user", IMAGE["User"]) == IMAGE["User"], f"{where}: the user is the image's, who owns the volume")
            for place in mounted:
                expect(place in IMAGE["Volumes"] or place == "/etc/bot-companion/companion.toml", f"{where}: the image uses {place}")
            expect(entry["read_only"] and entry["cap_drop"] == ["ALL"], f"{where}: it has no more rights than it needs")
            database = configuration["store.url"]
            on_volume = any(str(database).startswith(f"sqlite:{place}/") for place in mounted)
            expect(on_volume or "COMPANION_STORE_URL_FILE" in environment, f"{where}: the data is on a volume, or in PostgreSQL")
            if "healthcheck" in entry:
                check_command(entry["healthcheck"]["test"][1:], where)
        elif service == "haproxy":
            check_haproxy(environment, published)
    expect(ours, f"{name} runs the service")


def check_haproxy(environment: dict[str, str], published: list[int]) -> None:
    path = DEPLOY / "haproxy.cfg"
    used = set(re.findall(r"\$\{(PROXY_[A-Z0-9_]+)", path.read_text()))
    expect(set(environment) <= used, f"haproxy.cfg uses {set(environment) - used}")
    expect([f":{number}" for number in published] == [environment["PROXY_LISTEN"]], "HAProxy's published port is the one it listens on")
    program = shutil.which("haproxy", path=os.environ.get("PATH", "") + ":/usr/sbin")
    expect(program, "HAProxy is installed (Debian's package `haproxy`)")
    run(str(program), "-c", "-f", str(path), environment=environment)


def check_kubernetes() -> None:
    manifest = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))
    for entry in manifest:
        for version in KUBERNETES:
            kubernetes_validate.validate(entry, version, strict=True)
    kinds = {entry["kind"]: entry for entry in manifest}
    expect(len(kinds) == len(manifest), "there is one of each kind")
    pod = kinds["Deployment"]["spec"]["template"]
    [container] = pod["spec"]["containers"]

    # Names that refer to each other.
    labels = pod["metadata"]["labels"]
    selectors = [kinds["Deployment"]["spec"]["selector"]["matchLabels"], kinds["Service"]["spec"]["selector"]]
    selectors += [kinds["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"]]
    expect(all(selector == labels for selector in selectors), "all selectors find the pods")
    volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
    places = {mount["mountPath"]: volumes[mount["name"]] for mount in container["volumeMounts"]}
    expect(places["/etc/bot-companion"]["configMap"]["name"] == kinds["ConfigMap"]["metadata"]["name"], "the configuration is mounted")
    environment = {entry["name"]: entry["value"] for entry in container["env"]}
    for name, value in environment.items():
        if name.endswith("_FILE"):
            secret = places[str(Path(value).parent)]["secret"]["secretName"]
            expect(secret == kinds["Secret"]["metadata"]["name"] and Path(value).name in kinds["Secret"]["stringData"], f"{name} is in the Secret")

    # Checked by the service itself.
    file = FOLDER / "companion.toml"
    file.write_text(kinds["ConfigMap"]["data"]["companion.toml"])
    configuration = checked(file, environment)
    check_command(container.get("command", IMAGE["Entrypoint"]) + container.get("args", IMAGE["Cmd"]), "kubernetes.yaml")
    check_grace(pod["spec"]["terminationGracePeriodSeconds"], configuration, "kubernetes.yaml")
    ports = {entry["name"]: entry["containerPort"] for entry in container["ports"]}
    expect(f"{ports['http']}/tcp" in IMAGE["ExposedPorts"], "the port is the image's")
    expect(ports == {"http": port(configuration, "http.listen"), "admin": port(configuration, "admin.listen")}, "the ports are those of the configuration")
    expect([entry["targetPort"] for entry in kinds["Service"]["spec"]["ports"]] == ["http"], "the admin listener is in no Service")
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        asked = container[probe]["httpGet"]
        expect(asked["port"] == "admin", f"{probe} asks the admin listener")
        with urllib.request.urlopen(f"{ADMIN}{asked['path']}", timeout=60) as response:
            expect(response.status == 200, f"{asked['path']} exists")

    # Without edits it must not start, because its key is public.
    key = kinds["Secret"]["stringData"]["keys"]
    expect(not re.fullmatch(r"[^:]+:[A-Za-z0-9+/]{43}=", key), "the Secret has no key that would work")
    # Required by the namespace's label.
    context, own = pod["spec"]["securityContext"], container["securityContext"]
    expect(f"{context['runAsUser']}:{context['runAsGroup']}" == IMAGE["User"], "the user is the image's")
    expect(context["runAsNonRoot"] and context["seccompProfile"]["type"] == "RuntimeDefault", "the pod is restricted")
    expect(own["allowPrivilegeEscalation"] is False and own["readOnlyRootFilesystem"] and own["capabilities"] == {"drop": ["ALL"]}, "the container is restricted")


def main() -> None:
    secret = {"COMPANION_IDP_CLIENT_SECRET_FILE": "client-secret"}
    sqlite = checked(DEPLOY / "companion-sqlite.toml", secret)
    expect(sqlite["store.url"] == "sqlite:/var/lib/bot-companion/companion.db", "the data is in the folder that the unit and the package make")
    checked(DEPLOY / "companion.toml", {f"COMPANION_{name}_FILE": file for name, file in [("STORE_URL", "store-url"), ("SECRETS_KEYS", "keys"), ("IDP_CLIENT_SECRET", "client-secret")]})
    check_image()
    for path in sorted(DEPLOY.glob("compose*.yaml")):
        check_compose(path.name)
    check_kubernetes()
    print("manifests: every option, command, port and probe exists; the schemas of Kubernetes", " and ".join(KUBERNETES), "accept the manifest")


try:
    main()
except Failed as failed:
    raise SystemExit(str(failed)) from None
