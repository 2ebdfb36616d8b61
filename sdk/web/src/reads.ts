// The calls that the browser and server clients share.
import type { Call } from "./call.js";
import { CompanionError } from "./errors.js";
import type { FeedbackEntry, Guild, InvitableGuild, Me, SessionEntry, Stats, Status, TeamMember } from "./types.js";

export interface ReadOptions {
  signal?: AbortSignal | undefined;
  /** Bypasses the browser's cache. For guilds, the service also asks the provider first. */
  fresh?: boolean | undefined;
  /** The `cache` mode for `fetch`. After a change reported by `live()`, use `"no-cache"`. */
  cache?: RequestCache | undefined;
  /** Called with the time when the service got the data (guilds come from the provider), in milliseconds since 1970 by this machine's
   * clock. */
  received?: ((time: number) => void) | undefined;
}

export interface Reads {
  /** The user, their session and their team permissions. */
  me(options?: ReadOptions): Promise<Me>;
  /** The guilds that the user and the bot share. */
  guilds(options?: ReadOptions): Promise<Guild[]>;
  /** One of those guilds. Throws `guild_not_found` if the user doesn't share it with the bot. */
  guild(id: string, options?: ReadOptions): Promise<Guild>;
  /** Guilds the user can add the bot to. */
  invitableGuilds(options?: ReadOptions): Promise<InvitableGuild[]>;
  /** The user's sessions on all devices. */
  sessions(options?: ReadOptions): Promise<SessionEntry[]>;
  /** Ends one of those sessions. */
  endSession(id: string, options?: { signal?: AbortSignal | undefined }): Promise<void>;
  status(options?: ReadOptions): Promise<Status>;
  team(options?: ReadOptions): Promise<TeamMember[]>;
  feedback(options?: ReadOptions): Promise<FeedbackEntry[]>;
  stats(options?: ReadOptions): Promise<Stats>;
}

/** Calls the service. With `token`, on the user's behalf. */
export type Caller = <T>(path: string, call: Call, token: boolean) => Promise<T>;

/** Checks an ID for use in a path. `..` would lead to another route. */
function segment(id: string, error: "guild_not_found" | "session_not_found"): string {
  if (!/^[\w-]+$/.test(id) || id === "invitable") throw new CompanionError(error, "This ID doesn't exist.", { status: 404 });
  return id;
}

export function makeReads(run: Caller): Reads {
  const read = <T>(path: string, { signal, fresh, cache, received }: ReadOptions = {}, token = false, ask = false): Promise<T> =>
    // The header makes the service ask the provider. On other routes it would only cost a preflight.
    run(path, { signal, received, cache: fresh ? "no-cache" : cache, headers: fresh && ask ? { "Cache-Control": "no-cache" } : {} }, token);
  return {
    me: (options) => read("/me", options, true),
    guilds: (options) => read("/guilds", options, true, true),
    guild: async (id, options) => read(`/guilds/${segment(id, "guild_not_found")}`, options, true, true),
    invitableGuilds: (options) => read("/guilds/invitable", options, true, true),
    sessions: (options) => read("/sessions", options, true),
    endSession: async (id, options = {}) => {
      await run(`/sessions/${segment(id, "session_not_found")}`, { method: "DELETE", signal: options.signal }, true);
    },
    status: (options) => read("/", options),
    team: (options) => read("/team", options),
    feedback: (options) => read("/feedback", options),
    stats: (options) => read("/stats", options),
  };
}
