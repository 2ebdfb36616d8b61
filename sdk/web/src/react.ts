"use client";
// React hooks for the client. Components that use the same hook share one read.
import { type ReactElement, type ReactNode, createContext, createElement, useContext, useEffect, useMemo, useRef, useSyncExternalStore } from "react";
import type { Companion, CompanionError, FeedbackEntry, Guild, InvitableGuild, LiveListener, Me, ReadOptions, Reading, SessionEnd, SessionEntry, Stats, Status, TeamMember, Topic, User, Watch } from "./index.js";

const Context = createContext<Companion | null>(null);

export interface CompanionProviderProps {
  /** Created once, outside any component: `createCompanion({ url })`. */
  companion: Companion;
  /** Goes to a path of your site after a sign-in, for example your router's `replace`. By default the address is replaced, and routers
   * that listen for `popstate` follow. */
  navigate?: ((to: string) => void) | undefined;
  children?: ReactNode;
}

function replaceAddress(to: string): void {
  history.replaceState(history.state, "", to);
  dispatchEvent(new PopStateEvent("popstate", { state: history.state }));
}

/** Completes sign-ins, on whichever page they end, and brings the user back to where they were. */
export function CompanionProvider({ companion, navigate = replaceAddress, children }: CompanionProviderProps): ReactElement {
  const go = useRef(navigate);
  useEffect(() => {
    go.current = navigate;
  });
  useEffect(() => void visitOf(companion).arrive((to) => go.current(to)), [companion]);
  return createElement(Context.Provider, { value: companion }, children);
}

/** The client passed to the provider. */
export function useCompanion(): Companion {
  const companion = useContext(Context);
  if (!companion) throw new Error("Put a <CompanionProvider> around this component.");
  return companion;
}

/** Who is signed in. */
export interface SessionState {
  /** False while a sign-in is being completed, during server rendering, and in the first render: show neither "Sign in" nor a name. */
  readonly isLoaded: boolean;
  readonly user: User | null;
  /** Why the sign-in that ended on this page failed, until the next one begins or somebody is signed in. */
  readonly error: CompanionError | undefined;
  /** Why the session that this page has shown is over, until somebody is signed in. */
  readonly reason: SessionEnd | undefined;
}

const LOADING: SessionState = { isLoaded: false, user: null, error: undefined, reason: undefined };

interface Visit {
  arrive(navigate: (to: string) => void): Promise<void>;
  subscribe(changed: () => void): () => void;
  get(): SessionState;
}

function makeVisit(companion: Companion): Visit {
  const listeners = new Set<() => void>();
  let state = LOADING;
  let isArriving = false;
  const set = (change: Partial<SessionState>) => {
    state = { ...state, ...change };
    for (const listener of listeners) listener();
  };
  companion.onSession((session, reason) => set({ user: session?.user ?? null, reason, error: session ? undefined : state.error }));
  return {
    async arrive(navigate) {
      // Strict mode's second effect, while the first is at work.
      if (isArriving) return;
      isArriving = true;
      let error: CompanionError | undefined;
      let to: string | undefined;
      try {
        to = (await companion.handleCallback())?.returnTo;
      } catch (cause) {
        error = cause as CompanionError;
        to = error.returnTo ?? "/";
      }
      isArriving = false;
      try {
        if (to !== undefined) navigate(to);
      } finally {
        set({ isLoaded: true, user: companion.session()?.user ?? null, error });
      }
    },
    subscribe(changed) {
      const own = () => changed();
      listeners.add(own);
      return () => void listeners.delete(own);
    },
    get: () => state,
  };
}

const visits = new WeakMap<Companion, Visit>();
function visitOf(companion: Companion): Visit {
  let visit = visits.get(companion);
  if (!visit) visits.set(companion, (visit = makeVisit(companion)));
  return visit;
}

const loading = () => LOADING;

/** Who is signed in, in every tab; whether that is known yet; why a sign-in failed, or a session ended. */
export function useSession(): SessionState {
  const visit = visitOf(useCompanion());
  return useSyncExternalStore(visit.subscribe, visit.get, loading);
}

const nobody = () => null;

/** The signed-in user, in every tab; `null` for nobody, and during server rendering. */
export function useUser(): User | null {
  const companion = useCompanion();
  return useSyncExternalStore(companion.onSession, () => companion.session(), nobody)?.user ?? null;
}

/** `data`, `error`, `loading` and `updatedAt`, and a way to reload. */
export interface LiveReading<T> extends Reading<T> {
  /** Reads now; with `fresh`, the provider is asked first. */
  reload(options?: { fresh?: boolean }): void;
}

interface Store<T> {
  subscribe(changed: () => void): () => void;
  get(): LiveReading<T>;
}

type Read<T> = (companion: Companion) => (options: ReadOptions) => Promise<T>;

const MINE: Topic[] = ["guilds", "sessions", "me"];

function makeStore<T>(companion: Companion, topic: Topic, read: (options: ReadOptions) => Promise<T>, unused: () => void): Store<T> {
  const isMine = MINE.includes(topic);
  const listeners = new Set<() => void>();
  let watch: Watch | undefined;
  const reload: Watch["reload"] = (options) => watch?.reload(options);
  const blank = (): LiveReading<T> => ({ data: undefined, error: undefined, updatedAt: undefined, loading: !isMine || companion.session() !== null, reload });
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
          unused();
        });
      };
    },
  };
}

/** A page that shows guild after guild keeps the stores of the latest. */
const MOST_STORES = 100;
const known = new WeakMap<Companion, Map<string, Store<unknown>>>();

function storeOf<T>(companion: Companion, name: string, topic: Topic, read: Read<T>): Store<T> {
  let stores = known.get(companion);
  if (!stores) known.set(companion, (stores = new Map()));
  const found = stores.get(name) as Store<T> | undefined;
  if (found) return found;
  const all = stores;
  const store = makeStore(companion, topic, read(companion), () => all.get(name) === store && all.delete(name));
  // Rendered, but perhaps never mounted, so nothing else would remove it.
  for (const oldest of all.keys()) {
    if (all.size < MOST_STORES) break;
    all.delete(oldest);
  }
  all.set(name, store as Store<unknown>);
  return store;
}

// While a server renders, and for the first render in the page, which must be the same.
const waiting: LiveReading<never> = { data: undefined, error: undefined, updatedAt: undefined, loading: true, reload: () => undefined };
const wait = () => waiting;

function useRead<T>(name: string, topic: Topic, read: Read<T>): LiveReading<T> {
  const companion = useCompanion();
  // The name stands for what is read.
  const store = useMemo(() => storeOf(companion, name, topic, read), [companion, name]);
  return useSyncExternalStore(store.subscribe, store.get, wait);
}

/** The user, the session and the permissions from the team, kept up to date. */
export const useMe = (): LiveReading<Me> => useRead("me", "me", ({ me }) => me);
/** The user's guilds, kept up to date. If nobody is signed in, there is no `data`, and it isn't `loading`. */
export const useGuilds = (): LiveReading<Guild[]> => useRead("guilds", "guilds", ({ guilds }) => guilds);
/** One of the user's guilds, kept up to date; the error `guild_not_found` if there is none for this user. */
export const useGuild = (id: string): LiveReading<Guild> => useRead(`guild:${id}`, "guilds", ({ guild }) => (options) => guild(id, options));
/** Guilds that the user could add the bot to, kept up to date. */
export const useInvitableGuilds = (): LiveReading<InvitableGuild[]> => useRead("invitable", "guilds", ({ invitableGuilds }) => invitableGuilds);
/** The user's sessions, on all devices, kept up to date. */
export const useSessions = (): LiveReading<SessionEntry[]> => useRead("sessions", "sessions", ({ sessions }) => sessions);
/** The status of service and bot, kept up to date. */
export const useStatus = (): LiveReading<Status> => useRead("status", "status", ({ status }) => status);
/** The bot's team, kept up to date. */
export const useTeam = (): LiveReading<TeamMember[]> => useRead("team", "team", ({ team }) => team);
/** What people say about the bot, kept up to date. */
export const useFeedback = (): LiveReading<FeedbackEntry[]> => useRead("feedback", "feedback", ({ feedback }) => feedback);
/** The bot's numbers, kept up to date. */
export const useStats = (): LiveReading<Stats> => useRead("stats", "stats", ({ stats }) => stats);

/** Calls the listener with the topics that have changed while the component is mounted, starting with all. */
export function useLive(listener: LiveListener): void {
  const companion = useCompanion();
  const latest = useRef(listener);
  useEffect(() => {
    latest.current = listener;
  });
  useEffect(() => companion.live((topics) => latest.current(topics)), [companion]);
}
