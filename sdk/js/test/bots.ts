import { Client, type ClientOptions, GatewayIntentBits } from "discord.js";
import { type Companion, type Options, attach } from "../src/index.js";
import { FakeDiscord, PYTHON, listen } from "./processes.js";
import { type Json, Log, Service, guildId } from "./support.js";

export const KEY = "bck_test";
export const skip = PYTHON ? false : "FAKE_DISCORD_PYTHON is not set";

/** A guild of the fake Discord: two members, one of them with the role 50. */
export function guild(n: number, more: Json = {}): Json {
  return {
    id: guildId(n), name: `Guild ${n}`, owner_id: "10", roles: [{ id: "50", name: "Crew" }],
    members: [{ user: { id: "10", username: "marlow" }, roles: ["50"] }, { user: { id: "11", username: "ivo" }, roles: [] }],
    ...more,
  };
}

/** A bot as its developer would write it, with a fake Discord and a service. */
export async function bots(
  world: Json,
  clients: Partial<ClientOptions>[],
  options: Options<any> = {}, // eslint-disable-line @typescript-eslint/no-explicit-any
  prepare: (service: Service, fake: FakeDiscord) => unknown = () => {},
) {
  const fake = await FakeDiscord.start(world);
  const service = new Service();
  await prepare(service, fake);
  const server = await listen(service, KEY);
  const log = new Log();
  const started = clients.map((own) => {
    const client = new Client({
      intents: [GatewayIntentBits.Guilds, GatewayIntentBits.GuildMembers],
      // Guilds that come later than this are not in the first snapshot.
      waitGuildTimeout: 2_000,
      ...own,
      rest: { api: fake.api, ...own.rest },
    });
    const limits = { gatherTime: 20, firstRetry: 50, heartbeatInterval: 200, memberCountInterval: 500, listingRetry: 50 };
    const companion = attach(client, { url: server.url, key: KEY, logger: log, limits, ...options });
    return { client, companion };
  });
  const stop = async (): Promise<void> => {
    for (const { client, companion } of started) {
      await companion.close();
      await client.destroy();
    }
    await server.stop();
    fake.stop();
  };
  try {
    await Promise.all(started.map(({ client }) => client.login(fake.token)));
  } catch (error) {
    await stop();
    throw error;
  }
  return { fake, service, server, log, started, companion: started[0]?.companion as Companion, stop };
}
