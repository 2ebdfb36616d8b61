/**
 * Keeps a bot-companion service up to date from a discord.js bot.
 *
 * - `bot`: reads the library's client, hears its events, asks the bot's callbacks
 * - `staff`: who holds a granting role
 * - `feed`: order, repeats, bounds and patience
 * - `transport`: HTTP
 */
import { randomUUID } from "node:crypto";
import { Bot } from "./bot.js";
import { systemClock } from "./clock.js";
import { Feed } from "./feed.js";
import { SafeLogger, reasonOf } from "./logger.js";
import { fetchTransport } from "./transport.js";
import type { ClientLike, Companion, GuildOf, Options } from "./types.js";

export type { Clock } from "./clock.js";
export type { Bounds } from "./feed.js";
export type { Logger } from "./logger.js";
export type { FeedRequest, FeedResponse, Transport } from "./transport.js";
export type * from "./types.js";

const attached = new WeakMap<ClientLike, Companion>();

/** Call it before `client.login()`; that is all. It never throws. */
export function attach<Client extends ClientLike>(client: Client, options: Options<GuildOf<Client>> = {}): Companion {
  const known = attached.get(client);
  if (known) return known;
  const log = new SafeLogger(options.logger === undefined ? console : options.logger);
  let companion: Companion;
  try {
    companion = start(client, options as Options, log);
  } catch (error) {
    log.log("error", `not started: ${reasonOf(error)}`);
    companion = { feedback: () => false, changed: () => {}, close: async () => {} };
  }
  attached.set(client, companion);
  return companion;
}

function start(client: ClientLike, options: Options, log: SafeLogger): Companion {
  const url = options.url ?? process.env["COMPANION_URL"] ?? "";
  const key = options.key ?? process.env["COMPANION_BOT_KEY"] ?? "";
  if (!options.transport) {
    if (!url || !key) throw new Error("set COMPANION_URL and COMPANION_BOT_KEY, or pass url and key");
    if (!/^https?:$/.test(new URL(url).protocol)) throw new Error("COMPANION_URL must begin with http:// or https://");
  }
  const clock = options.clock ?? systemClock;
  const instance = randomUUID();
  const bot = new Bot(client, options, clock, log, instance);
  const feed = new Feed(bot, options.transport ?? fetchTransport(url, key), clock, log, instance, options.bounds);
  bot.listen(feed);
  feed.start();
  let closed: Promise<void> | null = null;
  return {
    feedback(entry) {
      const shaped = typeof entry?.id === "string" && typeof entry.feedback === "string";
      if (!shaped) log.once("warn", "feedback() needs an entry with id and feedback");
      return shaped && feed.feedback({ ...entry });
    },
    changed(guildId) {
      if (guildId === undefined) feed.refresh();
      else bot.changed(String(guildId));
    },
    close() {
      closed ??= (async () => {
        bot.deafen();
        // Nothing else need keep the process alive until what waits is sent.
        const hold = setInterval(() => {}, 1_000);
        try {
          await feed.close();
        } catch (error) {
          log.log("error", `close: ${reasonOf(error)}`);
        } finally {
          clearInterval(hold);
        }
      })();
      return closed;
    },
  };
}
