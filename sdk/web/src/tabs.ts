// One stream for all tabs: a Web Lock elects the tab that opens it, and a BroadcastChannel passes its events on to the others. It doesn't
// depend on the client, so that pages without the client can use it too.

/** Runs `lead` in one of the tabs that use the same name, and in another one when that tab is closed. `say` calls `hear` in the other
 * tabs. A tab that finds another one leading calls its own `hear` with `undefined`. Runs until the signal aborts. */
export type Share = (
  name: string,
  lead: (say: (topics: string[]) => void) => Promise<void>,
  hear: (topics: string[] | undefined) => void,
  signal: AbortSignal,
) => Promise<void>;

/** For the `tabs` option of `createCompanion`. */
export function shareTabs(page: Window & typeof globalThis): Share {
  return async (name, lead, hear, signal) => {
    const locks = page.navigator?.locks;
    // Browsers only have locks on HTTPS and localhost.
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
      // Granted when the leading tab is closed or stops listening.
      await locks.request(name, { signal }, leadNow);
    } catch (error) {
      // Locks may be blocked, as in a sandboxed frame. Use a separate stream.
      if (hasLed || signal.aborted) throw error;
      await work();
    } finally {
      channel.close();
    }
  };
}
