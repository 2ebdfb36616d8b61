// The session of this browser: kept in a storage, and the same in every tab that shares it.
import type { User } from "./types.js";

export interface Session {
  readonly token: string;
  readonly user: User;
}

/** What a session is kept in; `localStorage` and `sessionStorage` are such. */
export interface SessionStorage {
  getItem(key: string): string | null;
  setItem(key: string, value: string): void;
  removeItem(key: string): void;
}

/** Messages between tabs. */
export interface Message {
  /** Read the storage again. */
  session?: true;
  /** All sessions of the user with this id are over. */
  ended?: string;
  /** The stream, which another tab holds, named these. */
  changed?: string[];
}

type Listener = (session: Session | null) => void;

function parse(text: string | null): Session | null {
  try {
    const session = JSON.parse(text as string) as Session | null;
    return typeof session?.token === "string" && typeof session.user?.id === "string" ? session : null;
  } catch {
    return null;
  }
}

export class SessionStore {
  readonly #listeners = new Set<Listener>();
  #text: string | null = null;
  #session: Session | null = null;

  constructor(readonly key: string, readonly storage: SessionStorage | undefined, readonly tell: (message: Message) => void) {
    this.look();
  }

  get(): Session | null {
    return this.#session;
  }

  set(session: Session | null): void {
    const text = session && JSON.stringify(session);
    try {
      if (text) this.storage?.setItem(this.key, text);
      else this.storage?.removeItem(this.key);
    } catch {
      // A full or forbidden storage: the session then lives as long as the page.
    }
    this.#take(text);
    this.tell({ session: true });
  }

  /** Ends the session with this token; a newer one of another tab stays. */
  end(token: string): void {
    this.look();
    if (this.#session?.token === token) this.set(null);
  }

  /** Takes over what another tab has stored. */
  look(): void {
    try {
      if (this.storage) this.#take(this.storage.getItem(this.key));
    } catch {
      // Ignore it.
    }
  }

  on(listener: Listener): () => void {
    // One function may be given twice, and each is taken back on its own.
    const own: Listener = (session) => listener(session);
    this.#listeners.add(own);
    return () => void this.#listeners.delete(own);
  }

  #take(text: string | null): void {
    if (text === this.#text) return;
    this.#text = text;
    this.#session = parse(text);
    for (const listener of this.#listeners) {
      try {
        listener(this.#session);
      } catch (error) {
        // A bug of one listener is shown, but disturbs neither the others nor a sign-in.
        queueMicrotask(() => {
          throw error;
        });
      }
    }
  }
}
