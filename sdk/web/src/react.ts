"use client";
// React hooks for the client. Components that use the same hook share one read.
import { type ReactElement, type ReactNode, createContext, createElement, useContext, useEffect, useRef, useSyncExternalStore } from "react";
import type { Companion, Guild, LiveListener, ReadOptions, Reading, Status, Topic, User, Watch } from "./index.js";

const Context = createContext<Companion | null>(null);

export interface CompanionProviderProps {
  /** Created once, outside any component: `createCompanion({ url })`. */
  companion: Companion;
  children?: ReactNode;
}

export function CompanionProvider({ companion, children }: CompanionProviderProps): ReactElement {
  return createElement(Context.Provider, { value: companion }, children);
}

/** The client passed to the provider. */
export function useCompanion(): Companion {
  const companion = useContext(Context);
  if (!companion) throw new Error("Put a <CompanionProvider> around this component.");
  return companion;
}

const nobody = () => null;

/** The signed-in user, in every tab; `null` for nobody, and during server rendering. */
export function useUser(): User | null {
  const companion = useCompanion();
  return useSyncExternalStore(companion.onSession, () => companion.session(), nobody)?.user ?? null;
}

/** `data`, `error` and `loading`, and a way to reload. */
export interface LiveReading<T> extends Reading<T> {
  /** Reads now; with `fresh`, the provider is asked first. */
  reload(options?: { fresh?: boolean }): void;
}

interface Store<T> {
  subscribe(changed: () => void): () => void;
  get(): LiveReading<T>;
}

function makeStore<T>(companion: Companion, topic: Topic, isMine: boolean, read: (options: ReadOptions) => Promise<T>): Store<T> {
  const listeners = new Set<() => void>();
  let watch: Watch | undefined;
  const reload: Watch["reload"] = (options) => watch?.reload(options);
  const blank = (): LiveReading<T> => ({ data: undefined, error: undefined, loading: !isMine || companion.session() !== null, reload });
  let state = blank();
  return {
    get: () => {
      // Someone may have signed in or out while nobody watched.
      if (!watch && isMine && state.loading !== (companion.session() !== null)) state = blank();
      return state;
    },
    subscribe(changed) {
      const own = () => changed();
      listeners.add(own);
      watch ??= companion.watch(topic, read, (reading) => {
        state = { ...reading, reload };
        for (const listener of listeners) listener();
      });
      return () => {
        listeners.delete(own);
        // Strict mode subscribes again at once; that needs no second read.
        queueMicrotask(() => {
          if (listeners.size || !watch) return;
          watch.stop();
          watch = undefined;
          // What the next one sees may be another user's.
          state = blank();
        });
      };
    },
  };
}

interface Stores {
  guilds: Store<Guild[]>;
  status: Store<Status>;
}
const known = new WeakMap<Companion, Stores>();

function useStores(): Stores {
  const companion = useCompanion();
  let stores = known.get(companion);
  if (!stores) {
    stores = {
      guilds: makeStore(companion, "guilds", true, companion.guilds),
      status: makeStore(companion, "status", false, companion.status),
    };
    known.set(companion, stores);
  }
  return stores;
}

// While a server renders, and for the first render in the page, which must be the same.
const waiting: LiveReading<never> = { data: undefined, error: undefined, loading: true, reload: () => undefined };
const wait = () => waiting;

/** The user's guilds, kept up to date. If nobody is signed in, there is no `data`, and it isn't `loading`. */
export function useGuilds(): LiveReading<Guild[]> {
  const { guilds } = useStores();
  return useSyncExternalStore(guilds.subscribe, guilds.get, wait);
}

/** The status of service and bot, kept up to date. */
export function useStatus(): LiveReading<Status> {
  const { status } = useStores();
  return useSyncExternalStore(status.subscribe, status.get, wait);
}

/** Calls the listener with the topics that have changed while the component is mounted, starting with all. */
export function useLive(listener: LiveListener): void {
  const companion = useCompanion();
  const latest = useRef(listener);
  useEffect(() => {
    latest.current = listener;
  });
  useEffect(() => companion.live((topics) => latest.current(topics)), [companion]);
}
