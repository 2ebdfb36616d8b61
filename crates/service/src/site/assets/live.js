// Fetches the page again when something it shows has changed, so that it stays up to date. `data-live` of <main> names the topics of
// `GET /live` that matter. Of all visible tabs, one has the stream and tells the others: a browser opens only six connections to a
// service over HTTP/1.1. Tabs only exchange topic names, which are the same for everyone.

const { base, times, tabs } = document.documentElement.dataset;
const [{ localise, setLost }, { shareTabs }] = await Promise.all([import(times), import(tabs)]);
const main = document.querySelector("main");
const topics = main.dataset.live.split(" ");

// A page says how long ago things were, and there is no event when a bot stops reporting.
const READ_AT_LEAST_EVERY = 60_000;
const READ_AT_MOST_FOR = 10_000;
// The minimum wait before a page is read again, plus a random part, so that visitors don't all come at the same moment. Up or down is
// shown at once. A large bot's numbers change every second, so one read covers many changes.
const SOON = [0, 1_000];
const LATER = [20_000, 20_000];
// After a failed read or a refused stream, doubled each time.
const REOPEN_AFTER = 3_000;
const REOPEN_AT_MOST_AFTER = 60_000;

// --- Reading ---

let reading = false;
let again = false;
let failures = 0;
/** When the page will be read, and the timer for it. */
let due = Infinity;
let timer;
/** Until when the service has asked not to be read. */
let notBefore = 0;
/** The version to show as soon as nothing on the page is focused or selected. */
let newest;

function show() {
  const focused = main.contains(document.activeElement) && document.activeElement !== main;
  const selection = document.getSelection();
  const selected = !selection.isCollapsed && main.contains(selection.anchorNode);
  if (!newest || focused || selected) return;
  // What the visitor has opened stays open.
  for (const { id } of main.querySelectorAll("details[id][open]")) {
    newest.querySelector(`details[id="${CSS.escape(id)}"]`)?.setAttribute("open", "");
  }
  main.replaceChildren(...newest.childNodes);
  newest = undefined;
}

/** Schedules a read, unless an earlier one is already scheduled. */
function readIn([least, rest]) {
  const now = performance.now();
  const at = Math.max(now + least, notBefore) + Math.random() * rest;
  if (at >= due) return;
  due = at;
  clearTimeout(timer);
  timer = setTimeout(readAgain, at - now);
}

/** Replaces the page with its current version, but not while the visitor is using it. If it can't be read, says so until it can. */
async function readAgain() {
  clearTimeout(timer);
  due = Infinity;
  // A hidden page is read when it is seen again.
  if (document.hidden) return;
  if (reading) {
    again = true;
    return;
  }
  reading = true;
  const wait = backoff(failures);
  let isRead = false;
  try {
    const response = await fetch(location.href, { headers: { "Accept": "text/html" }, signal: AbortSignal.timeout(READ_AT_MOST_FOR) });
    if (response.ok) {
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      newest = page.querySelector("main");
      localise(newest);
      show();
      isRead = true;
    } else {
      // A day at most: timers can't wait for a month.
      notBefore = performance.now() + Math.min(86_400, Number(response.headers.get("Retry-After")) || 0) * 1000;
    }
  } catch {
    // The network is down, or the service.
  }
  reading = false;
  setLost(!isRead);
  failures = isRead ? 0 : failures + 1;
  if (!isRead) readIn([wait, wait / 2]);
  else if (again) readIn(SOON);
  again = false;
}

/** How long to wait after this many failures in a row. */
const backoff = (failures) => Math.min(REOPEN_AT_MOST_AFTER, REOPEN_AFTER * 2 ** failures);

main.addEventListener("focusout", () => setTimeout(show));
setInterval(() => readIn([0, 0]), READ_AT_LEAST_EVERY);
addEventListener("online", () => readIn(SOON));

// --- The stream ---

/** What a tab tells the others when the stream is lost: reading shows whether the service is still there. */
const LOST = "lost";

function hear(changed) {
  // After a failed read, the next one is due already.
  if (changed.includes(LOST)) failures || readIn(SOON);
  else if (changed.includes("status") && topics.includes("status")) readIn(SOON);
  else if (changed.some((topic) => topics.includes(topic))) readIn(LATER);
}

/** Keeps a stream open until the signal aborts, and tells the other tabs what changed. `isNew`: the page has just been loaded, so its
 * first event, which names every topic, says nothing new. */
function hold(say, signal, isNew) {
  return new Promise((resolve) => {
    let stream;
    let reopen;
    let refusals = 0;
    const tell = (changed) => {
      say(changed);
      hear(changed);
    };
    const open = () => {
      stream = new EventSource(`${base}/live`);
      stream.addEventListener("changed", (event) => {
        if (!isNew) tell(JSON.parse(event.data).changed);
        isNew = false;
        refusals = 0;
      });
      stream.addEventListener("error", () => {
        // Events may have been missed, so the next first event counts.
        isNew = false;
        tell([LOST]);
        // The browser connects again after a lost connection, but not after a refusal.
        if (stream.readyState !== EventSource.CLOSED) return;
        reopen = setTimeout(open, backoff(refusals) * (0.5 + Math.random()));
        refusals += 1;
      });
    };
    signal.addEventListener("abort", () => {
      clearTimeout(reopen);
      stream.close();
      resolve();
    });
    open();
  });
}

const share = shareTabs(window);
let visible;
/** Holds the stream, or waits until the tab that holds it is closed or hidden. */
function follow(isNew) {
  visible = new AbortController();
  const { signal } = visible;
  share(
    `bot-companion:pages:${base}`,
    (say) => hold(say, signal, isNew),
    (changed) => {
      // Another tab has the stream. If this one gets it later, it may have missed events.
      isNew = false;
      if (changed) hear(changed);
    },
    signal,
  ).catch((error) => {
    // Waiting ends with an error when the tab is hidden.
    if (!signal.aborted) throw error;
  });
}

document.addEventListener("visibilitychange", () => {
  visible?.abort();
  if (document.hidden) return;
  readIn(SOON);
  follow(false);
});
if (!document.hidden) follow(true);
