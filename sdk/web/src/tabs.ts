// One stream for all tabs: a Web Lock elects the tab that holds it, and a BroadcastChannel passes on what it hears. It knows nothing of
// the client, so that a page without it can share a stream too.

/** Runs `lead` in one of the tabs that call this with the same name, and in another when that tab is closed. `say` reaches the other
 * tabs' `hear`, which also hears `undefined` when another tab is found to lead. Lasts until the signal aborts. */
export type Share = (
  name: string,
  lead: (say: (topics: string[]) => void) => Promise<void>,
  hear: (topics: string[] | undefined) => void,
  signal: AbortSignal,
) => Promise<void>;

/** For `createCompanion`'s option `tabs`. */
export function shareTabs(page: Window & typeof globalThis): Share {
  return async (name, lead, hear, signal) => {
    const locks = page.navigator?.locks;
    // Browsers have locks on https and localhost only.
    if (!locks || !page.BroadcastChannel) return lead(() => undefined);
    const channel = new page.BroadcastChannel(name);
    channel.onmessage = ({ data }: { data: unknown }) => {
      if (!signal.aborted && Array.isArray(data)) hear(data.filter((topic) => typeof topic === "string"));
    };
    const work = () =>
      lead((topics) => {
        if (!signal.aborted) channel.postMessage(topics);
      });
    let hasLed = false;
    const leadNow = (lock: Lock | null) => {
      if (!lock || signal.aborted) return;
      hasLed = true;
      return work();
    };
    try {
      await locks.request(name, { ifAvailable: true }, leadNow);
      if (hasLed || signal.aborted) return;
      hear(undefined);
      // Granted when the other tab is closed, or listens no more.
      await locks.request(name, { signal }, leadNow);
    } catch (error) {
      // A sandboxed frame may have no locks: it gets a stream of its own.
      if (hasLed || signal.aborted) throw error;
      await work();
    } finally {
      channel.close();
    }
  };
}
