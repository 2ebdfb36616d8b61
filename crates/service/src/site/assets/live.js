// Fetches the page again when something it shows has changed, so that it stays up to date. `data-live` of <main> names the topics of
// `GET /live` that matter. Of all visible tabs, one has the stream and tells the others: a browser opens only six connections to a
// service over HTTP/1.1. Tabs only exchange topic names, which are the same for everyone.

const { base, times, tabs } = document.documentElement.dataset;
const [{ localise }, { shareTabs }] = await Promise.all([import(times), import(tabs)]);
const main = document.querySelector("main");
const topics = main.dataset.live.split(" ");

// A page says how long ago things were, and there is no event when a bot stops reporting.
const READ_AT_LEAST_EVERY = 60_000;
// The minimum wait before a page is read again, plus a random part, so that visitors don't all come at the same moment. Up or down is
// shown at once. A large bot's numbers change every second, so one read covers many changes.
const SOON = [0, 1_000];
const LATER = [20_000, 20_000];
// After a refused stream, doubled each time.
const REOPEN_AFTER = 3_000;
const REOPEN_AT_MOST_AFTER = 60_000;

// --- Reading ---

let reading = false;
let again = false;
/** When the page will be read, and the timer for it. */
let due = Infinity;
let timer;
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
  const at = now + least + Math.random() * rest;
  if (at >= due) return;
  due = at;
  clearTimeout(timer);
  timer = setTimeout(readAgain, at - now);
}

/** Replaces the page with its current version, but not while the visitor is using it. */
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
  try {
    const response = await fetch(location.href, { headers: { "Accept": "text/html" } });
    if (!response.ok) {
      const wait = Number(response.headers.get("Retry-After")) * 1000;
      if (wait) readIn([wait, wait / 2]);
      return;
    }
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    newest = page.querySelector("main");
    localise(newest);
    show();
  } catch {
    // The network is down. The browser tells us when it's back.
  } finally {
    reading = false;
    if (again) {
      again = false;
      readIn(SOON);
    }
  }
}

main.addEventListener("focusout", () => setTimeout(show));
setInterval(readAgain, READ_AT_LEAST_EVERY);
addEventListener("online", () => readIn(SOON));

// --- The stream ---

function hear(changed) {
  if (changed.includes("status") && topics.includes("status")) readIn(SOON);
  else if (changed.some((topic) => topics.includes(topic))) readIn(LATER);
}

/** Keeps a stream open until the signal aborts, and tells the other tabs what changed. `isNew`: the page has just been loaded, so its
 * first event, which names every topic, says nothing new. */
function hold(say, signal, isNew) {
  return new Promise((resolve) => {
    let stream;
    let reopen;
    let refusals = 0;
    const open = () => {
      stream = new EventSource(`${base}/live`);
      stream.addEventListener("changed", (event) => {
        const { changed } = JSON.parse(event.data);
        if (!isNew) {
          say(changed);
          hear(changed);
        }
        isNew = false;
        refusals = 0;
      });
      stream.addEventListener("error", () => {
        // Events may have been missed, so the next first event counts.
        isNew = false;
        // The browser connects again after a lost connection, but not after a refusal.
        if (stream.readyState !== EventSource.CLOSED) return;
        const wait = Math.min(REOPEN_AT_MOST_AFTER, REOPEN_AFTER * 2 ** refusals);
        refusals += 1;
        reopen = setTimeout(open, wait * (0.5 + Math.random()));
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
    (say, leading) => hold(say, leading, isNew),
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
