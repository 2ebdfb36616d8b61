// The session of this browser: kept in a storage, and the same in every tab that shares it.
import type { User } from "./types.js";

export interface Session {
  readonly token: string;
  readonly user: User;
}

/** Why nobody is signed in any more: `signed_out`: the user signed out, in any tab; `ended`: the service ended the session, because it
 * expired, was ended from another device, or the user was blocked. */
export type SessionEnd = "signed_out" | "ended";

export type SessionListener = (session: Session | null, reason: SessionEnd | undefined) => void;

/** What a session is kept in; `localStorage` and `sessionStorage` are such. */
export interface SessionStorage {
  getItem(key: string): string | null;
  setItem(key: string, value: string): void;
  removeItem(key: string): void;
}

/** Messages between tabs. Never a token: a tab that may know it reads it from the storage. */
export interface Message {
  /** Read the storage again. */
  session?: true;
  /** All sessions of the user with this id are over. */
  ended?: string;
}

/** A storage that never throws: what it refuses lives as long as the page. */
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
        // There is none, or it's full or forbidden.
        memory.set(key, value);
      }
    },
    removeItem(key) {
      memory.delete(key);
      try {
        storage?.removeItem(key);
      } catch {
        // Ignore it.
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

  /** Ends the session with this token; a newer one of another tab stays. */
  end(token: string, reason: SessionEnd): void {
    this.look();
    if (this.#session?.token === token) this.#put(reason === ENDED ? reason : null);
  }

  /** Takes over what another tab has stored. */
  look(): void {
    this.#take(this.storage.getItem(this.key));
  }

  on(listener: SessionListener): () => void {
    // One function may be given twice, and each is taken back on its own.
    const own: SessionListener = (session, reason) => listener(session, reason);
    this.#listeners.add(own);
    return () => void this.#listeners.delete(own);
  }

  /** The text stands for a session, or says why there is none: other tabs read it, in whatever order they hear of it. */
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
        // A bug of one listener is shown, but disturbs neither the others nor a sign-in.
        queueMicrotask(() => {
          throw error;
        });
      }
    }
  }
}
