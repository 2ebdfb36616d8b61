#!/usr/bin/env node
// Runs the executable of the package for this platform, as if it had been called directly: same arguments, same terminal, same
// signals, same exit code.
"use strict";

const { spawn } = require("node:child_process");
const { existsSync } = require("node:fs");
const { constants } = require("node:os");
const { dirname, join } = require("node:path");
const { version } = require("../package.json");

/** The packages that hold an executable, by platform, processor and C library. */
const PACKAGES = {
  "linux x64 glibc": "@bot-companion/server-linux-x64",
};

/** What the service listens to. Ctrl-C reaches it twice, from the terminal and from here; the second one changes nothing. */
const FORWARDED = ["SIGINT", "SIGTERM", "SIGHUP"];

function platform() {
  const names = [process.platform, process.arch];
  if (process.platform === "linux") {
    // Lists open sockets and asks DNS for their names unless told not to.
    process.report.excludeNetwork = true;
    names.push(process.report.getReport().header.glibcVersionRuntime ? "glibc" : "musl");
  }
  return names.join(" ");
}

/** The path of the executable, or exits with an explanation. */
function executable() {
  if (process.env.BOT_COMPANION_BINARY) return process.env.BOT_COMPANION_BINARY;
  const here = platform();
  const name = PACKAGES[here];
  if (name === undefined) {
    refuse(
      `There is no ready executable for ${here}. bot-companion has one for: ${Object.keys(PACKAGES).join(", ")}.`,
      "Build it from source: install Rust (with rustup) and a C compiler, get the source code, and run `make build`.",
      "Then set BOT_COMPANION_BINARY to the path of target/release/bot-companion, or run that file directly.",
    );
  }
  const folder = find(name);
  if (folder === undefined) {
    refuse(
      `The package ${name}, which holds the executable for this machine, is not installed.`,
      "Optional dependencies may be turned off (--no-optional, --omit=optional), or node_modules may come from another machine.",
      `Reinstall on this machine with optional dependencies, or install ${name} as well.`,
    );
  }
  const found = require(join(folder, "package.json")).version;
  if (found !== version) {
    refuse(`${folder} has version ${found}, but this is version ${version}.`, `Install version ${version} of both packages.`);
  }
  return join(folder, "bin", "bot-companion");
}

/** Where the package is. Only looks in this package's own node_modules: a folder further up may belong to someone else. */
function find(name) {
  // Yarn without node_modules knows exactly which package belongs to this one.
  if (process.versions.pnp) {
    try {
      return dirname(require.resolve(`${name}/package.json`));
    } catch {
      return undefined;
    }
  }
  const own = join(__dirname, "..");
  const places = [join(own, "node_modules", name), join(own, "..", "..", name)];
  return places.find((place) => existsSync(join(place, "package.json")));
}

/** Exit code 1, as when the service itself fails to start. */
function refuse(...lines) {
  console.error(lines.join("\n"));
  process.exit(1);
}

const path = executable();
const child = spawn(path, process.argv.slice(2), { stdio: "inherit" });
for (const signal of FORWARDED) process.on(signal, () => child.kill(signal));
// npm starts this from a shell and sends SIGTERM only to that shell. Without this, the service would keep running.
if (process.env.npm_command) {
  const parent = process.ppid;
  const watch = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(watch);
    child.kill("SIGTERM");
  }, 250);
}
child.on("error", (error) => refuse(`${path} cannot be started: ${error.message}`));
// Like a shell: 128 + N if signal N ended it.
child.on("exit", (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
