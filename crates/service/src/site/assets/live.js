// Reads the page again when something that it shows has changed: a page without this script is right when it is loaded, one with it
// stays so. `data-live` of <main> names the topics of `GET /live` that matter.

const base = document.documentElement.dataset.base;
const main = document.querySelector("main");
const topics = main.dataset.live.split(" ");

// A page says how long ago things were, and a bot that falls silent is no event.
const READ_AT_LEAST_EVERY = 60_000;

let reading = false;
let again = false;
/** What is to be shown as soon as nothing on the page has the focus or is selected. */
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

/** Puts the page as it is now in place of the one that is shown; what the visitor does on it is left alone. */
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
    show();
  } catch {
    // The network is away; the stream connects again by itself, and its first event names everything.
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
  // Something may have been missed: the next first event is news.
  isFirst = false;
});
