// The calls that a browser and a server have in common.
import type { Call } from "./call.js";
import { CompanionError } from "./errors.js";
import type { FeedbackEntry, Guild, InvitableGuild, Me, SessionEntry, Stats, Status, TeamMember } from "./types.js";

export interface ReadOptions {
  signal?: AbortSignal | undefined;
  /** Asks the provider first (guilds), and bypasses the browser's cache (everything). */
  fresh?: boolean | undefined;
  /** How the browser's cache is used; `live()` says when `"no-cache"` is needed. */
  cache?: RequestCache | undefined;
}

export interface Reads {
  /** The user, the session and the permissions from the team. */
  me(options?: ReadOptions): Promise<Me>;
  /** The guilds that the user and the bot share. */
  guilds(options?: ReadOptions): Promise<Guild[]>;
  /** One of them; `guild_not_found` if there is none for this user. */
  guild(id: string, options?: ReadOptions): Promise<Guild>;
  /** Guilds that the user could add the bot to. */
  invitableGuilds(options?: ReadOptions): Promise<InvitableGuild[]>;
  /** The user's sessions, on all devices. */
  sessions(options?: ReadOptions): Promise<SessionEntry[]>;
  /** Ends one of them. */
  endSession(id: string, options?: { signal?: AbortSignal | undefined }): Promise<void>;
  status(options?: ReadOptions): Promise<Status>;
  team(options?: ReadOptions): Promise<TeamMember[]>;
  feedback(options?: ReadOptions): Promise<FeedbackEntry[]>;
  stats(options?: ReadOptions): Promise<Stats>;
}

/** Calls the service; with `token`, on the user's behalf. */
export type Caller = <T>(path: string, call: Call, token: boolean) => Promise<T>;

/** An id in a path. One like `..` would name another route. */
function segment(id: string, error: "guild_not_found" | "session_not_found"): string {
  if (!/^[\w-]+$/.test(id) || id === "invitable") throw new CompanionError(error, "There is none with this id.", { status: 404 });
  return id;
}

export function makeReads(run: Caller): Reads {
  const read = <T>(path: string, { signal, fresh, cache }: ReadOptions = {}, token = false, ask = false): Promise<T> =>
    // The header makes the service ask the provider. Elsewhere it would only cost a preflight.
    run(path, { signal, cache: fresh ? "no-cache" : cache, headers: fresh && ask ? { "Cache-Control": "no-cache" } : {} }, token);
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
