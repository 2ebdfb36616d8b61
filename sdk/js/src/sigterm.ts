import { isMainThread } from "node:worker_threads";

type Close = () => Promise<void>;

const open = new Set<Close>();
let isListening = false;
let isClosing = false;

/**
 * Closes on SIGTERM, then lets the process end as it would have on SIGTERM. Only if nothing else listens for it: another
 * listener decides when the process ends, and calls `close()` itself. The returned function undoes this.
 */
export function closeAtSigterm(close: Close): () => void {
  if (!isMainThread || (!isListening && process.listenerCount("SIGTERM") > 0)) return () => {};
  open.add(close);
  if (!isListening) {
    isListening = true;
    process.on("SIGTERM", onSigterm);
    process.on("newListener", onNewListener);
  }
  return () => {
    open.delete(close);
    if (open.size === 0 && !isClosing) stopListening();
  };
}

function onNewListener(event: string | symbol, listener: unknown): void {
  if (event !== "SIGTERM" || listener === onSigterm) return;
  // Only after the new one is in place: without any listener, Node hands the signal back to the system.
  process.nextTick(() => {
    if (isListening && process.listenerCount("SIGTERM") > 1) stopListening();
  });
}

function stopListening(): void {
  isListening = false;
  process.off("newListener", onNewListener);
  process.off("SIGTERM", onSigterm);
}

function onSigterm(): void {
  // A second SIGTERM doesn't wait.
  if (isClosing) return end();
  if (process.listenerCount("SIGTERM") > 1) return;
  isClosing = true;
  void Promise.allSettled([...open].map((close) => close())).then(end);
}

function end(): void {
  stopListening();
  // In a container, the kernel doesn't end the first process on a signal that it doesn't handle.
  if (process.pid === 1) process.exit(143);
  process.kill(process.pid, "SIGTERM");
}
