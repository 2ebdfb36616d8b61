import { shareTabs } from "@bot-companion/web/tabs";

/** Calls `changed` when data should be reloaded. All tabs of a user share one stream. Returns a function that stops it. */
export function followChanges(userId: string | undefined, changed: () => void): () => void {
  let follow = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;

  // All open pages hear about a change at once, so each waits for a random time before it reloads.
  const tell = () => {
    timer ??= setTimeout(() => {
      timer = undefined;
      changed();
    }, Math.random() * 2000);
  };

  /** Runs in one of the tabs, and keeps a stream open for all of them. */
  const lead = (say: (topics: string[]) => void) =>
    new Promise<void>((resolve) => {
      let stream: EventSource;
      let retry: ReturnType<typeof setTimeout> | undefined;
      const open = () => {
        stream = new EventSource("/live");
        const pass = (topics: string[]) => {
          say(topics);
          tell();
        };
        stream.addEventListener("changed", ({ data }) => pass(JSON.parse(data).changed));
        // The session has ended. Reloading shows that, and then opens a stream without a user.
        stream.addEventListener("ended", () => pass(["session"]));
        // Browsers reopen a lost stream, but not one that was refused.
        stream.addEventListener("error", () => {
          if (stream.readyState === EventSource.CLOSED) retry = setTimeout(open, 5000 + Math.random() * 5000);
        });
      };
      open();
      follow.signal.addEventListener("abort", () => {
        clearTimeout(retry);
        stream.close();
        resolve();
      });
    });

  // Hidden tabs don't follow, because browsers may suspend them. They read again when they're visible.
  const turn = () => {
    follow.abort();
    if (document.hidden) return;
    follow = new AbortController();
    // The name contains the user, so that tabs of different users don't share.
    void shareTabs(window)(`lantern:live:${userId ?? ""}`, lead, tell, follow.signal).catch(() => {});
  };
  turn();
  document.addEventListener("visibilitychange", turn);
  return () => {
    document.removeEventListener("visibilitychange", turn);
    follow.abort();
    clearTimeout(timer);
  };
}
