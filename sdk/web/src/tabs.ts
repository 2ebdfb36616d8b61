// One stream for all tabs: a Web Lock elects the tab that opens it, and a BroadcastChannel passes its events on to the others. It doesn't
// depend on the client, so that pages without the client can use it too.

/** Runs `lead` in one of the tabs that use the same name, and in another one when that tab is closed or falls silent. `say` calls `hear`
 * in the other tabs. `lead` should end when `leading` aborts: another tab leads now, or `signal` has aborted. A tab that finds another
 * one leading calls its own `hear` with `undefined`. Runs until the signal aborts. */
export type Share = (
  name: string,
  lead: (say: (topics: string[]) => void, leading: AbortSignal) => Promise<void>,
  hear: (topics: string[] | undefined) => void,
  signal: AbortSignal,
) => Promise<void>;

/** How often the leading tab says that it's alive, in milliseconds. */
const ALIVE = 20_000;
/** How long a tab waits for that. Browsers may suspend a tab that has the lock. In hidden tabs, timers run only once a minute. */
const SILENCE = 150_000;

/** For the `tabs` option of `createCompanion`. */
export function shareTabs(page: Window & typeof globalThis): Share {
  return async (name, lead, hear, signal) => {
    const locks = page.navigator?.locks;
    // Browsers only have locks on HTTPS and localhost.
    if (!locks || !page.BroadcastChannel) return lead(() => undefined, signal);
    const channel = new page.BroadcastChannel(name);
    let watchdog: number | undefined;
    let onSilence: (() => void) | undefined;
    const watch = () => {
      page.clearTimeout(watchdog);
      // Not all tabs at the same time: the first one leads, and the others hear that.
      if (onSilence) watchdog = page.setTimeout(onSilence, SILENCE * (1 + Math.random() / 2));
    };
    channel.onmessage = ({ data }: { data: unknown }) => {
      if (signal.aborted) return;
      watch();
      if (Array.isArray(data)) hear(data.filter((topic) => typeof topic === "string"));
    };

    /** Leads, or follows until this tab can lead. Returns how to go on: follow, lead by force, or not at all. */
    const turn = async (steal: boolean): Promise<"follow" | "steal" | undefined> => {
      const own = new AbortController();
      const abort = () => own.abort();
      signal.addEventListener("abort", abort);
      let hasLed = false;
      let isLeading = false;
      let isSilent = false;
      let timer: number | undefined;
      const tell = (message: unknown) => {
        if (!own.signal.aborted) channel.postMessage(message);
      };
      const work = () => lead(tell, own.signal);
      const leadNow = async (lock: Lock | null) => {
        if (!lock || own.signal.aborted) return;
        onSilence = undefined;
        hasLed = isLeading = true;
        tell("alive");
        timer = page.setInterval(() => tell("alive"), ALIVE);
        await work().finally(() => (isLeading = false));
      };
      try {
        await locks.request(name, steal ? { steal } : { ifAvailable: true }, leadNow);
        if (hasLed || signal.aborted) return undefined;
        hear(undefined);
        onSilence = () => {
          isSilent = true;
          abort();
        };
        watch();
        // Granted when the leading tab is closed or stops listening.
        await locks.request(name, { signal: own.signal }, leadNow);
      } catch (error) {
        if (signal.aborted) throw error;
        if (isSilent) return "steal";
        // Another tab has heard nothing from this one, and leads now.
        if (isLeading) return "follow";
        if (hasLed) throw error;
        // Locks may be blocked, as in a sandboxed frame. Use a separate stream.
        await work();
      } finally {
        onSilence = undefined;
        watch();
        page.clearInterval(timer);
        abort();
        signal.removeEventListener("abort", abort);
      }
      return undefined;
    };

    try {
      for (let next: "follow" | "steal" | undefined = "follow"; next; ) next = await turn(next === "steal");
    } finally {
      channel.close();
    }
  };
}
