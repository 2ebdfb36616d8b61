// One stream for all tabs: a Web Lock elects the tab that opens it, and a BroadcastChannel passes its events on to the others. It doesn't
// depend on the client, so that pages without the client can use it too.

/** Runs `lead` in one of the tabs that use the same name, and in another one when that tab is closed or its signal aborts. `say` calls
 * `hear` in the other tabs. `lead` should end when `signal` aborts. A tab that finds another one leading calls its own `hear` with
 * `undefined`. Runs until the signal aborts. Abort while the page is hidden: a browser may suspend a hidden tab that leads. */
export type Share = (
  name: string,
  lead: (say: (topics: string[]) => void) => Promise<void>,
  hear: (topics: string[] | undefined) => void,
  signal: AbortSignal,
) => Promise<void>;

export function shareTabs(page: Window & typeof globalThis): Share {
  return async (name, lead, hear, signal) => {
    const locks = page.navigator?.locks;
    // Browsers only have locks on HTTPS and localhost.
    if (!locks || !page.BroadcastChannel) return lead(() => undefined);
    const channel = new page.BroadcastChannel(name);
    channel.onmessage = ({ data }: { data: unknown }) => {
      if (!signal.aborted && Array.isArray(data)) hear(data);
    };
    let isLeading = false;
    const leadNow = async (lock: Lock | null) => {
      if (!lock || signal.aborted) return;
      isLeading = true;
      await lead((topics) => signal.aborted || channel.postMessage(topics));
    };
    try {
      await locks.request(name, { ifAvailable: true }, leadNow);
      if (isLeading || signal.aborted) return;
      hear(undefined);
      await locks.request(name, { signal }, leadNow);
    } catch (error) {
      if (isLeading || signal.aborted) throw error;
      // Locks may be blocked, as in a sandboxed frame. Use a separate stream.
      await lead(() => undefined);
    } finally {
      channel.close();
    }
  };
}
