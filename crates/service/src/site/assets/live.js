// Fetches the page again when something it shows has changed, so that it stays up to date. `data-live` of <main> names the topics of
// `GET /live` that matter.

const { base, times } = document.documentElement.dataset;
const { localise } = await import(times);
const main = document.querySelector("main");
const topics = main.dataset.live.split(" ");

// A page says how long ago things were, and there is no event when a bot stops reporting.
const READ_AT_LEAST_EVERY = 60_000;

let reading = false;
let again = false;
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

/** Replaces the page with its current version, but not while the visitor is using it. */
async function readAgain() {
  if (reading) {
    again = true;
    return;
  }
  reading = true;
  try {
    const response = await fetch(location.href, { headers: { "Accept": "text/html" } });
    if (!response.ok) return;
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    newest = page.querySelector("main");
    localise(newest);
    show();
  } catch {
    // The network is down. The stream reconnects on its own, and its first event names every topic.
  } finally {
    reading = false;
    if (again) {
      again = false;
      void readAgain();
    }
  }
}

main.addEventListener("focusout", () => setTimeout(show));
setInterval(() => document.hidden || readAgain(), READ_AT_LEAST_EVERY);

let isFirst = true;
const stream = new EventSource(`${base}/live`);
stream.addEventListener("changed", (event) => {
  const { changed } = JSON.parse(event.data);
  // The first event names every topic, and the page has just been loaded.
  if (!isFirst && changed.some((topic) => topics.includes(topic))) {
    // Not all visitors at the same moment.
    setTimeout(readAgain, Math.random() * 1000);
  }
  isFirst = false;
});
stream.addEventListener("error", () => {
  // Events may have been missed, so the next first event counts.
  isFirst = false;
});
