/** Calls `changed` when there is something to read again, until the function that it gives back is called. */
export function followChanges(changed: () => void): () => void {
  let stream: EventSource | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;

  // All pages hear of a change in the same second; they must not all read in it.
  const tell = () => {
    timer ??= setTimeout(() => {
      timer = undefined;
      changed();
    }, Math.random() * 2000);
  };

  function open() {
    stream = new EventSource("/live");
    stream.addEventListener("changed", tell);
    // The session is over. Reading again shows that, and then a stream for nobody is opened.
    stream.addEventListener("ended", () => {
      close();
      changed();
    });
    // A browser opens a lost stream again by itself, but not one that was refused.
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
    // A hidden page needs none; a browser has six connections for all tabs of a site with HTTP/1.1. The first event of the next
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
