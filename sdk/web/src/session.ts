// This browser's session: kept in a storage, and the same in every tab that shares the storage.
import type { User } from "./types.js";

export interface Session {
  readonly token: string;
  readonly user: User;
}

/** Why the session ended. `signed_out`: the user signed out, in any tab. `ended`: the service ended it, because it expired, was ended
 * from another device, or the user was blocked. */
export type SessionEnd = "signed_out" | "ended";

export type SessionListener = (session: Session | null, reason: SessionEnd | undefined) => void;

/** Where the session is kept, for example `localStorage` or `sessionStorage`. */
export interface SessionStorage {
  getItem(key: string): string | null;
  setItem(key: string, value: string): void;
  removeItem(key: string): void;
}

function parse(text: string | null): Session | null {
  try {
    const session = JSON.parse(text as string) as Session | null;
    return typeof session?.token === "string" && typeof session.user?.id === "string" ? session : null;
  } catch {
    return null;
  }
}

const ENDED: SessionEnd = "ended";

export interface SessionStore {
  readonly key: string;
  get(): Session | null;
  set(session: Session): void;
  /** Ends the session with this token, but not a newer one from another tab. */
  end(token: string, reason: SessionEnd): void;
  /** Picks up what another tab has stored. */
  look(): void;
  on(listener: SessionListener): () => void;
}

export function makeSessions(key: string, storage: SessionStorage | undefined): SessionStore {
  const listeners = new Set<SessionListener>();
  let text: string | null = null;
  let session: Session | null = null;
  /** The storage is missing, full or blocked, so the session lasts as long as the page is open. */
  let isLost = false;

  const take = (now: string | null) => {
    if (text === now) return;
    text = now;
    const before = session;
    session = parse(text);
    if (!before && !session) return;
    for (const listener of listeners) {
      try {
        listener(session, session ? undefined : text === ENDED ? ENDED : "signed_out");
      } catch (error) {
        // Reports a listener's bug without stopping the other listeners or the sign-in.
        queueMicrotask(() => {
          throw error;
        });
      }
    }
  };
  /** Stores a session, or why it ended, so that other tabs can read both, in whatever order they are notified. */
  const put = (now: string | null) => {
    try {
      isLost = false;
      if (now) (storage as SessionStorage).setItem(key, now);
      else (storage as SessionStorage).removeItem(key);
    } catch {
      isLost = true;
    }
    take(now);
  };
  const look = () => {
    try {
      if (!isLost) take((storage as SessionStorage).getItem(key));
    } catch {
      // Nothing could be stored.
    }
  };
  look();
  return {
    key,
    get: () => session,
    set: (now) => put(JSON.stringify(now)),
    end(token, reason) {
      look();
      if (session?.token === token) put(reason === ENDED ? reason : null);
    },
    look,
    on(listener) {
      // A wrapper, so that the same function can be added twice, and each removed separately.
      const own: SessionListener = (...now) => listener(...now);
      listeners.add(own);
      return () => void listeners.delete(own);
    },
  };
}
