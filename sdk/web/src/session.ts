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

/** Messages between tabs. They never contain a token: tabs read it from their storage. */
export interface Message {
  /** The stored session has changed. */
  session?: true;
  /** All sessions of the user with this ID have ended. */
  ended?: string;
}

/** A storage that never throws. What can't be stored is kept in memory, as long as the page is open. */
export function reliable(storage: SessionStorage | undefined): SessionStorage {
  const memory = new Map<string, string>();
  return {
    getItem(key) {
      try {
        return memory.get(key) ?? (storage as SessionStorage).getItem(key);
      } catch {
        return null;
      }
    },
    setItem(key, value) {
      memory.delete(key);
      try {
        (storage as SessionStorage).setItem(key, value);
      } catch {
        // It's missing, full or blocked.
        memory.set(key, value);
      }
    },
    removeItem(key) {
      memory.delete(key);
      try {
        storage?.removeItem(key);
      } catch {
        // Nothing was stored.
      }
    },
  };
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

export class SessionStore {
  readonly #listeners = new Set<SessionListener>();
  #text: string | null = null;
  #session: Session | null = null;

  constructor(readonly key: string, readonly storage: SessionStorage, readonly tell: (message: Message) => void) {
    this.look();
  }

  get(): Session | null {
    return this.#session;
  }

  set(session: Session): void {
    this.#put(JSON.stringify(session));
  }

  /** Ends the session with this token, but not a newer one from another tab. */
  end(token: string, reason: SessionEnd): void {
    this.look();
    if (this.#session?.token === token) this.#put(reason === ENDED ? reason : null);
  }

  /** Picks up what another tab has stored. */
  look(): void {
    this.#take(this.storage.getItem(this.key));
  }

  on(listener: SessionListener): () => void {
    // A wrapper, so that the same function can be added twice, and each removed separately.
    const own: SessionListener = (session, reason) => listener(session, reason);
    this.#listeners.add(own);
    return () => void this.#listeners.delete(own);
  }

  /** Stores a session, or why it ended, so that other tabs can read both, in whatever order they are notified. */
  #put(text: string | null): void {
    if (text) this.storage.setItem(this.key, text);
    else this.storage.removeItem(this.key);
    this.#take(text);
    this.tell({ session: true });
  }

  #take(text: string | null): void {
    if (text === this.#text) return;
    this.#text = text;
    const before = this.#session;
    const session = (this.#session = parse(text));
    if (!before && !session) return;
    for (const listener of this.#listeners) {
      try {
        listener(session, session ? undefined : text === ENDED ? ENDED : "signed_out");
      } catch (error) {
        // Reports a listener's bug without stopping the other listeners or the sign-in.
        queueMicrotask(() => {
          throw error;
        });
      }
    }
  }
}
