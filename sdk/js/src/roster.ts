import { type GuildFields, type World, compareIds, shardOf } from "./world.js";

/** The bot's guilds: those that Discord listed in the session, and those joined since. A library may still have others, which the bot left while offline. */
export class Roster {
  readonly #world: World;
  /** Per shard; for other shards, the library's guilds count. */
  readonly #named = new Map<number, Set<string>>();

  constructor(world: World) {
    this.#world = world;
  }

  /** A new session with these guilds; if they aren't known, the library's count. */
  session(shard: number, guilds: Iterable<string> | null): void {
    if (guilds) this.#named.set(shard, new Set(guilds));
    else this.#named.delete(shard);
  }

  /** The shards have changed. */
  forget(): void {
    this.#named.clear();
  }

  here(guild: string): void {
    this.#namedOf(guild)?.add(guild);
  }

  gone(guild: string): void {
    this.#namedOf(guild)?.delete(guild);
  }

  /** In the library's order, followed by those that the library doesn't have. */
  guildIds(shard: number): string[] {
    const listed = this.#world.guildIds(shard);
    const named = this.#named.get(shard);
    if (!named) return listed;
    const has = new Set(listed);
    return [...listed.filter((id) => named.has(id)), ...[...named].filter((id) => !has.has(id)).sort(compareIds)];
  }

  guild(id: string): GuildFields | "unavailable" | null {
    const named = this.#namedOf(id);
    if (named && !named.has(id)) return null;
    return this.#world.guild(id) ?? (named ? "unavailable" : null);
  }

  #namedOf(guild: string): Set<string> | undefined {
    return this.#named.get(shardOf(guild, this.#world.shardCount()));
  }
}
