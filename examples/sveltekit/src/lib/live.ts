/** Calls `changed` when data should be reloaded. Returns a function that stops it. */
export function followChanges(changed: () => void): () => void {
  let stream: EventSource | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;

  // All open pages are notified within the same second, so each waits for a random time before it reloads.
  const tell = () => {
    timer ??= setTimeout(() => {
      timer = undefined;
      changed();
    }, Math.random() * 2000);
  };

  function open() {
    stream = new EventSource("/live");
    stream.addEventListener("changed", tell);
    // The session has ended. Reloading shows that, and then opens a stream without a user.
    stream.addEventListener("ended", () => {
      close();
      changed();
    });
    // Browsers reopen a lost stream by themselves, but not one that was refused.
    stream.addEventListener("error", () => {
      if (stream?.readyState === EventSource.CLOSED) timer ??= setTimeout(reopen, 5000 + Math.random() * 5000);
    });
  }

  function close() {
    stream?.close();
    clearTimeout(timer);
    timer = undefined;
  }

  function reopen() {
    close();
    // A hidden page needs no stream, and with HTTP/1.1 a browser has only six connections per site. The first event of the next
    // stream names everything, so nothing is missed.
    if (!document.hidden) open();
  }

  document.addEventListener("visibilitychange", reopen);
  reopen();
  return () => {
    document.removeEventListener("visibilitychange", reopen);
    close();
  };
}
