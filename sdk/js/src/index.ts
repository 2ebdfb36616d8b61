/**
 * Keeps a bot-companion service up to date from a discord.js bot.
 *
 * - `adapter`: discord.js, its events and its cache. Nothing else depends on it
 * - `core`: the state machine, put together from the parts that `sdk/conformance` describes: `marks`, `snapshots`,
 *   `sender` (with `batch`, `lists`, `guilds`), `heartbeat`, `staff` (with `listings` and their `budget`), `callbacks`
 *   (with `grants`, `entries`), `feedback` (with `spool`), `status`
 * - `transport`: HTTP, with `calls` for time limits and outages
 */
import { randomUUID } from "node:crypto";
import { Adapter } from "./adapter.js";
import { systemClock } from "./clock.js";
import { readConfig } from "./config.js";
import { Core } from "./core.js";
import type { Handlers } from "./callbacks.js";
import { idOf } from "./ids.js";
import { readLimits } from "./limits.js";
import { closeAtSigterm } from "./sigterm.js";
import { Status, defaultLogger, reasonOf } from "./status.js";
import { fetchTransport } from "./transport.js";
import type { ClientLike, Companion, GuildOf, Options } from "./types.js";

export type { Clock } from "./clock.js";
export type { Delivery } from "./feedback.js";
export type { Limits } from "./limits.js";
export type { Counters, Events, Logger, Problem, State, StatusReport } from "./status.js";
export type { FeedRequest, FeedResponse, Transport } from "./transport.js";
export type * from "./types.js";

type Attached = WeakMap<ClientLike, { companion: Companion; status: Status }>;

/** One for the process, even if the package is loaded by `import` and by `require`. */
const attached: Attached = ((globalThis as Record<symbol, unknown>)[Symbol.for("@bot-companion/discord.js attached")] ??= new WeakMap()) as Attached;

/** Call it before `client.login()`; that's all. It never throws. */
export function attach<Client extends ClientLike>(client: Client, given?: Options<GuildOf<Client>>): Companion {
  const options = given ?? {};
  const known = attached.get(client);
  if (known) {
    const ignored = Object.keys(options);
    if (ignored.length > 0) {
      known.status.warn(`attach was called again for the same client; ignoring ${ignored.join(", ")} from this call: pass all options in the first call`);
    }
    return known.companion;
  }
  const status = new Status(options.logger === undefined ? defaultLogger : options.logger);
  try {
    const companion = start(client, options as Options, status);
    attached.set(client, { companion, status });
    return companion;
  } catch (error) {
    const reason = `not started: ${reasonOf(error)}`;
    status.error(reason);
    return inert(reason, status);
  }
}

function start(client: ClientLike, options: Options, status: Status): Companion {
  if (typeof client?.on !== "function" || !client.guilds || !client.ws) throw new Error("the first argument of attach must be a discord.js client");
  const { url, key } = options.transport ? { url: options.url ?? "", key: "" } : readConfig(options);
  const clock = options.clock ?? systemClock;
  const limits = readLimits(options.limits, status);
  const adapter = new Adapter(client, clock, status, options.members ?? "list");
  const core = new Core({
    world: adapter, handlers: handlersOf(client, options), clock, status, limits, url, instance: randomUUID(),
    transport: options.transport ?? fetchTransport(url, key, clock, limits.flushInterval),
    spool: options.spool ?? process.env["COMPANION_SPOOL"],
  });
  core.start();
  adapter.listen(core);

  let closed: Promise<void> | null = null;
  let forgetSigterm = (): void => {};
  const close = (): Promise<void> => (closed ??= closeAll(adapter, core, status).finally(() => forgetSigterm()));
  if (options.sigterm !== false) forgetSigterm = closeAtSigterm(close);
  return {
    changed(...args: unknown[]) {
      // Only without any argument: a guild that wasn't found must not cause everything to be sent again.
      if (args.length === 0) return core.allChanged();
      const guild = idOf(args[0]);
      if (guild) return core.changed(guild);
      const given = args[0] === undefined || args[0] === null ? "no guild" : "something that is neither a guild nor an ID";
      status.warnOnce(`changed ${given}`, `changed() was given ${given}: nothing is done. Without an argument it sends everything again`);
    },
    subscriptionsChanged: () => core.subscriptionsChanged(),
    teamChanged: () => core.teamChanged(),
    feedback: (entry) => core.feedback({ ...entry }),
    feedbackGone: (id) => core.feedbackGone(id),
    status: () => core.status(),
    on: (event, listener) => status.on(event, listener),
    close,
  };
}

/** The bot's callbacks receive discord.js' own guild object. */
function handlersOf(client: ClientLike, { grants, setup, linked, subscriptions, team }: Options): Handlers {
  const withGuild = (call: ((guild: never) => unknown) | undefined) =>
    call && ((id: string) => {
      const guild = client.guilds.cache.get(id);
      if (!guild) throw new Error(`guild ${id} was left`);
      return call(guild as never);
    });
  return { grants: withGuild(grants), setup: withGuild(setup), linked: withGuild(linked), subscriptions, team };
}

async function closeAll(adapter: Adapter, core: Core, status: Status): Promise<void> {
  adapter.deafen();
  // Keeps the process alive until everything that's waiting has been sent.
  const hold = setInterval(() => {}, 1_000);
  try {
    await core.close();
  } catch (error) {
    status.fault(error);
  } finally {
    clearInterval(hold);
  }
}

/** Does nothing, so that a wrongly configured bot runs as it would without this package. */
function inert(reason: string, status: Status): Companion {
  const refused = async () => ({ delivered: false, reason });
  return {
    changed: () => {},
    subscriptionsChanged: () => {},
    teamChanged: () => {},
    feedback: refused,
    feedbackGone: refused,
    status: () => ({
      state: "closed", instance: "", guilds: 0, shards: 0, staff: 0, waiting: { changes: 0, feedback: 0, batch: 0 },
      lastError: status.lastError, counters: { ...status.counters },
    }),
    on: (event, listener) => status.on(event, listener),
    close: async () => {},
  };
}
