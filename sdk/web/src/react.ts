"use client";
// React hooks. Components that use the same hook share one read.
import { type ReactElement, type ReactNode, createContext, createElement, useContext, useEffect, useMemo, useRef, useSyncExternalStore } from "react";
import { CompanionError } from "./errors.js";
import type { Companion, FeedbackEntry, Guild, InvitableGuild, LiveListener, Me, ReadOptions, Reading, SessionEnd, SessionEntry, Stats, Status, TeamMember, Topic, User, Watch } from "./index.js";
import { isPrivate } from "./live.js";

const Context = createContext<Companion | null>(null);

export interface CompanionProviderProps {
  /** Create it once, outside any component: `createCompanion({ url })`. */
  companion: Companion;
  /** Goes to a path on your site after a sign-in, for example your router's `replace`. By default, the URL is replaced, and routers that
   * listen for `popstate` follow. */
  navigate?: ((to: string) => void) | undefined;
  children?: ReactNode;
}

function replaceUrl(to: string): void {
  history.replaceState(history.state, "", to);
  dispatchEvent(new PopStateEvent("popstate", { state: history.state }));
}

/** Completes sign-ins on any page, and takes the user back to where they were. */
export function CompanionProvider({ companion, navigate = replaceUrl, children }: CompanionProviderProps): ReactElement {
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
  if (!companion) throw new Error("Wrap this component in a <CompanionProvider>.");
  return companion;
}

/** Who is signed in. */
export interface SessionState {
  /** False during server rendering, in the first render, and while a sign-in is being completed. Show neither "Sign in" nor a name yet. */
  readonly isLoaded: boolean;
  readonly user: User | null;
  /** Why the last sign-in failed. Cleared when someone signs in. */
  readonly error: CompanionError | undefined;
  /** Why the session ended. Cleared when someone signs in. */
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
      // Strict mode's second effect, while the first is still running.
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
      const user = companion.session()?.user ?? null;
      // Back to the provider after signing in, and another choice there: that sign-in is over, and nothing has failed.
      if (user && error?.code === "state_mismatch") error = undefined;
      try {
        if (to !== undefined) navigate(to);
      } finally {
        set({ isLoaded: true, user, error });
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

/** Whether the session has loaded, who is signed in, and why a sign-in failed or a session ended. The same in every tab. */
export function useSession(): SessionState {
  const visit = visitOf(useCompanion());
  return useSyncExternalStore(visit.subscribe, visit.get, loading);
}

/** What a hook returns: `data`, `error`, `loading`, `updatedAt` and `reload`. */
export interface LiveReading<T> extends Reading<T> {
  /** Reads again now. With `fresh`, the service asks the provider first. */
  reload(options?: { fresh?: boolean }): void;
}

interface Store<T> {
  subscribe(changed: () => void): () => void;
  get(): LiveReading<T>;
}

type Read<T> = (companion: Companion) => (options: ReadOptions) => Promise<T>;

function makeStore<T>(companion: Companion, topic: Topic, read: (options: ReadOptions) => Promise<T>): Store<T> {
  const listeners = new Set<() => void>();
  let watch: Watch | undefined;
  const reload: Watch["reload"] = (options) => watch?.reload(options);
  const nothing: LiveReading<T> = { data: undefined, error: undefined, updatedAt: undefined, loading: false, reload };
  const first: LiveReading<T> = { ...nothing, loading: true };
  let state: LiveReading<T> | undefined;
  return {
    // Someone may sign in or out while no component is subscribed.
    get: () => state ?? (isPrivate(topic) && !companion.session() ? nothing : first),
    subscribe(changed) {
      const own = () => changed();
      listeners.add(own);
      watch ??= companion.watch(topic, read, (reading) => {
        state = { ...reading, reload };
        for (const listener of listeners) listener();
      });
      return () => {
        listeners.delete(own);
        // Wait, because strict mode subscribes again at once, and must not cause a second read.
        queueMicrotask(() => {
          if (listeners.size || !watch) return;
          watch.stop();
          // The next subscriber may be another user.
          watch = state = undefined;
        });
      };
    },
  };
}

const known = new WeakMap<Companion, Map<string, Store<unknown>>>();

function storeOf<T>(companion: Companion, name: string, topic: Topic, read: Read<T>): Store<T> {
  let stores = known.get(companion);
  if (!stores) known.set(companion, (stores = new Map()));
  let store = stores.get(name) as Store<T> | undefined;
  if (!store) stores.set(name, (store = makeStore(companion, topic, read(companion))) as Store<unknown>);
  return store;
}

// For server rendering, and for the first render in the browser, which must match it.
const BLANK: LiveReading<never> = { data: undefined, error: undefined, updatedAt: undefined, loading: true, reload: () => undefined };
const blank = () => BLANK;

function useRead<T>(name: string, topic: Topic, read: Read<T>): LiveReading<T> {
  const companion = useCompanion();
  // `read` is a new function each time; the name identifies it.
  const store = useMemo(() => storeOf(companion, name, topic, read), [companion, name]);
  return useSyncExternalStore(store.subscribe, store.get, blank);
}

/** The user, their session and their team permissions, kept up to date. */
export const useMe = (): LiveReading<Me> => useRead("me", "me", ({ me }) => me);
/** The user's guilds, kept up to date. If no one is signed in, there's no `data`, and `loading` is false. */
export const useGuilds = (): LiveReading<Guild[]> => useRead("guilds", "guilds", ({ guilds }) => guilds);
/** One of them, from the same read. The error is `guild_not_found` if the user doesn't share it with the bot. */
export function useGuild(id: string): LiveReading<Guild> {
  const guilds = useGuilds();
  return useMemo(() => {
    const data = guilds.data?.find((guild) => guild.id === id);
    const error = guilds.data && !data && !guilds.error ? new CompanionError("guild_not_found", "The user and the bot don't share this guild.") : guilds.error;
    return { ...guilds, data, error };
  }, [guilds, id]);
}
/** Guilds the user can add the bot to, kept up to date. */
export const useInvitableGuilds = (): LiveReading<InvitableGuild[]> => useRead("invitable", "guilds", ({ invitableGuilds }) => invitableGuilds);
/** The user's sessions on all devices, kept up to date. */
export const useSessions = (): LiveReading<SessionEntry[]> => useRead("sessions", "sessions", ({ sessions }) => sessions);
/** The status of the service and the bot, kept up to date. */
export const useStatus = (): LiveReading<Status> => useRead("status", "status", ({ status }) => status);
/** The bot's team, kept up to date. */
export const useTeam = (): LiveReading<TeamMember[]> => useRead("team", "team", ({ team }) => team);
/** User feedback about the bot, kept up to date. */
export const useFeedback = (): LiveReading<FeedbackEntry[]> => useRead("feedback", "feedback", ({ feedback }) => feedback);
/** The bot's statistics, kept up to date. */
export const useStats = (): LiveReading<Stats> => useRead("stats", "stats", ({ stats }) => stats);

/** While the component is mounted, calls the listener with the topics that have changed, first with all of them. */
export function useLive(listener: LiveListener): void {
  const companion = useCompanion();
  const latest = useRef(listener);
  useEffect(() => {
    latest.current = listener;
  });
  useEffect(() => companion.live((topics) => latest.current(topics)), [companion]);
}
