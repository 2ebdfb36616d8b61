#!/usr/bin/env node
/** The command `doctor`: checks whether a bot could reach the service from here and, if not, says what to do. */
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { type Finding, checkGrantKeys, checkIntents, checkService, checkSpool } from "./checks.js";
import { reasonOf } from "./status.js";

const HELP = `Checks whether a discord.js bot can reach its bot-companion service from here and, if not, says what to do.

  npx --no @bot-companion/discord.js doctor [options]

Options
  --grant-keys KEYS  checks the keys that the bot's grants callback uses, for example ADMIN,MOD
  --spool PATH       the file for waiting feedback (default: the variable COMPANION_SPOOL)
  --help             this text
  --version          the package's version

Variables (use the same values as the bot)
  COMPANION_URL      the service's address
  COMPANION_BOT_KEY  the bot's key
  COMPANION_SPOOL    the file for waiting feedback, if the bot uses one
  DISCORD_TOKEN      the bot's token; with it, the intents are checked at Discord
  DISCORD_API        Discord's address, if it isn't https://discord.com/api

Each line begins with "ok", "wrong" (and says what to do) or "-" (not checked). The exit status is 1 if something is wrong.
Neither key nor token is printed.`;

const OPTIONS = {
  "grant-keys": { type: "string" },
  spool: { type: "string" },
  help: { type: "boolean", short: "h" },
  version: { type: "boolean" },
} as const;

async function main(): Promise<number> {
  let parsed: ReturnType<typeof parseArgs<{ options: typeof OPTIONS; allowPositionals: true }>>;
  try {
    parsed = parseArgs({ options: OPTIONS, allowPositionals: true });
  } catch (error) {
    console.error(`${reasonOf(error)}\n\n${HELP}`);
    return 2;
  }
  const { values, positionals } = parsed;
  if (values.help) return print(HELP);
  if (values.version) return print(version());
  if (positionals.join(" ") !== "doctor") {
    console.error(`The command is "doctor".\n\n${HELP}`);
    return 2;
  }
  const { env } = process;
  const findings = [
    ...(await checkService()),
    await checkIntents(env["DISCORD_TOKEN"], env["DISCORD_API"] ?? "https://discord.com/api"),
    checkGrantKeys(values["grant-keys"]),
    checkSpool(values.spool ?? env["COMPANION_SPOOL"]),
  ];
  for (const finding of findings) console.log(line(finding));
  const isWrong = findings.some(({ state }) => state === "wrong");
  console.log(isWrong ? 'something is wrong: see the lines that begin with "wrong"' : "all is well");
  return isWrong ? 1 : 0;
}

function line({ state, subject, message }: Finding): string {
  return `${state.padEnd(6)} ${subject.padEnd(13)} ${message}`;
}

function print(text: string): number {
  console.log(text);
  return 0;
}

function version(): string {
  const manifest = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as { version: string };
  return manifest.version;
}

process.exitCode = await main();
