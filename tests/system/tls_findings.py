#!/usr/bin/env python3
"""Reads testssl.sh's findings, prints those that are LOW or worse, and fails on anything above LOW that isn't excused."""

import json
import sys

# Checks that testssl.sh couldn't make here (WARN): the ID, and why it doesn't concern the service. The test CA needs no exception:
# testssl.sh is told to trust it, and its certificate names a revocation list.
EXCUSED = {
    "engine_problem": "this machine's openssl has no GOST ciphers to try",
    "sessionresumption_ticket": "on a busy machine, openssl leaves before the ticket arrives, so the check can't run",
}
HARMLESS = {"OK", "INFO", "LOW", "DEBUG"}
# Without these, it hasn't really tested anything.
EXPECTED = {"TLS1_3", "cipher_order", "heartbleed", "ROBOT", "HSTS_time"}

with open(sys.argv[1]) as file:
    findings = json.load(file)
wrong = []
for found in findings:
    name, severity = found["id"], found["severity"]
    is_excused = severity == "WARN" and name in EXCUSED
    if severity not in HARMLESS and not is_excused:
        wrong.append(name)
    if severity not in {"OK", "INFO"}:
        excuse = f" (excused: {EXCUSED[name]})" if is_excused else ""
        print(f"{severity:8} {name}: {found['finding']}{excuse}")
seen = {found["id"] for found in findings}
if missing := EXPECTED - seen:
    sys.exit(f"testssl.sh has not looked at {', '.join(sorted(missing))}")
if wrong:
    sys.exit(f"testssl.sh: above LOW: {', '.join(wrong)}")
print(f"testssl.sh: {len(findings)} findings, nothing above LOW")
