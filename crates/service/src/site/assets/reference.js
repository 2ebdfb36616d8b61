// Adds what needs a script to the reference: copy buttons, live responses, a filter. The pages are complete without it. Every
// word comes from the page: <template id="tools"> holds the parts in the visitor's language.

const base = location.origin + document.documentElement.dataset.base;
const tools = document.getElementById("tools").content;

/** A copy of one of the page's ready-made parts. */
const part = (selector) => tools.querySelector(selector).cloneNode(true);

/** The longest response to show; nobody reads megabytes of text. */
const MOST_SHOWN = 20_000;
/** How long a response may take, in milliseconds. */
const PATIENCE = 30_000;
/** The response headers that a developer may want to see. */
const HEADERS = ["content-type", "cache-control", "age", "etag", "retry-after", "x-request-id"];

// Commands use the address that the visitor sees.
for (const origin of document.querySelectorAll(".origin")) origin.textContent = base;

// --- Copying ---

/** What to copy from a code block: in console blocks, only the commands, without their prompts. */
function copyable(block) {
  const text = block.querySelector("code").textContent;
  if (block.dataset.language !== "console") return text;
  return text.split("\n").filter((line) => line.startsWith("$ ")).map((line) => line.slice(2)).join("\n");
}

async function copy(block, button) {
  const label = button.textContent;
  try {
    await navigator.clipboard.writeText(copyable(block));
    button.textContent = button.dataset.done;
  } catch {
    // Without https there is no clipboard: select the text, so that the keyboard can copy it.
    getSelection().selectAllChildren(block.querySelector("code"));
    button.textContent = button.dataset.failed;
  }
  button.disabled = true;
  setTimeout(() => {
    button.textContent = label;
    button.disabled = false;
  }, 2000);
}

function addCopyButton(block) {
  const button = part(".copy");
  button.addEventListener("click", () => copy(block, button));
  block.append(button);
  block.classList.add("copyable");
}

for (const block of document.querySelectorAll(".code")) addCopyButton(block);

// --- Live answers ---

// This page's token. It is never stored, so it's gone when the page is closed.
let token = "";

/** The session of the site's own dashboard, which its client keeps in this browser. Only read when the visitor asks for it. */
function dashboardSession() {
  try {
    const session = JSON.parse(localStorage.getItem(`bot-companion:${base}`));
    return typeof session?.token === "string" ? session : null;
  } catch {
    return null;
  }
}

/** The text of a response; for a stream, its first event. */
async function read(response, isStream) {
  if (!isStream || !response.ok) return response.text();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  while (!/^(event|data):/m.test(text) || !text.includes("\n\n")) {
    const { done, value } = await reader.read();
    if (done) break;
    text += value;
  }
  await reader.cancel();
  return text.trim();
}

/** The parts of JSON: strings, which are keys if a colon follows, words and numbers. */
const JSON_PARTS = /("(?:\\.|[^"\\])*")(?=(\s*:)?)|\b(true|false|null)\b|-?\d[\d.eE+-]*/g;

/** The text with JSON in colour, like the page's examples. */
function* coloured(text) {
  let end = 0;
  for (const match of text.matchAll(JSON_PARTS)) {
    const [whole, string, colon, word] = match;
    yield text.slice(end, match.index);
    const part = document.createElement("span");
    part.className = string ? (colon ? "k" : "s") : word ? "w" : "n";
    part.textContent = whole;
    yield part;
    end = match.index + whole.length;
  }
  yield text.slice(end);
}

/** JSON is indented, everything else is left as is; long text is cut. */
function shown(text, cut) {
  let pretty = text;
  try {
    pretty = JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    // It isn't JSON.
  }
  if (pretty.length <= MOST_SHOWN) return pretty;
  const count = (pretty.length - MOST_SHOWN).toLocaleString(document.documentElement.lang);
  return `${pretty.slice(0, MOST_SHOWN)}\n${cut.replace("{count}", count)}`;
}

function showHeaders(list, headers) {
  list.replaceChildren();
  for (const name of HEADERS.filter((name) => headers.has(name))) {
    const [term, value] = [document.createElement("dt"), document.createElement("dd")];
    term.textContent = name;
    value.textContent = headers.get(name);
    list.append(term, value);
  }
}

/** Calls the operation with the form's values, and shows the response. */
async function call(operation, form) {
  const result = form.querySelector(".result");
  const list = form.querySelector(".headers");
  const block = form.querySelector(".code");
  const send = form.querySelector("[type=submit]");
  const isStream = "stream" in operation.dataset;
  const values = [...form.querySelectorAll(".parameter input")];
  const path = values.reduce(
    (path, input) => path.replace(`{${input.name}}`, encodeURIComponent(input.value.trim())),
    operation.dataset.path,
  );
  const headers = needsToken(operation) ? { Token: token } : {};
  for (const { name, value } of form.querySelectorAll(".optional input")) if (value.trim()) headers[name] = value.trim();
  send.disabled = true;
  list.hidden = block.hidden = true;
  result.textContent = form.dataset.waiting;
  const begun = performance.now();
  try {
    const response = await fetch(base + path, {
      headers,
      cache: "no-store",
      credentials: "omit",
      signal: AbortSignal.timeout(PATIENCE),
    });
    const text = await read(response, isStream);
    const took = Math.round(performance.now() - begun);
    result.textContent = `${response.status} · ${took} ms`;
    if (isStream && response.ok) result.textContent += ` · ${form.dataset.firstEvent}`;
    showHeaders(list, response.headers);
    block.querySelector("code").replaceChildren(...coloured(shown(text, form.dataset.cut)));
    list.hidden = block.hidden = false;
  } catch {
    result.textContent = form.dataset.failed;
  } finally {
    send.disabled = false;
  }
}

/** Replaces the field with one copy per name. */
function addFields(field, names) {
  for (const name of names) {
    const own = field.cloneNode(true);
    own.querySelector("code").textContent = name;
    own.querySelector("input").name = name;
    field.before(own);
  }
  field.remove();
}

/** Fields for each `{…}` in the path and for the optional headers, before the rest of the form. */
function addParameters(operation, form) {
  const inPath = [...operation.dataset.path.matchAll(/\{(.*?)\}/g)].map(([, name]) => name);
  addFields(form.querySelector(".parameter"), inPath);
  addFields(form.querySelector(".optional"), operation.dataset.headers?.split(" ") ?? []);
}

/** The token: typed in, or the dashboard's if the visitor chooses that. */
function addToken(form) {
  const input = form.querySelector(".token input");
  const told = form.querySelector(".told");
  input.value = token;
  input.addEventListener("input", () => {
    token = input.value.trim();
  });
  form.querySelector(".session").addEventListener("click", () => {
    const session = dashboardSession();
    if (session) token = input.value = session.token;
    told.textContent = session
      ? form.dataset.using.replace("{name}", session.user?.name ?? session.user?.id)
      : form.dataset.noSession;
  });
}

const needsToken = (operation) => operation.dataset.try === "token";

/** Opens an operation's form below its code; operations without input are called right away. */
function open(operation, button) {
  const form = part(".trial");
  addParameters(operation, form);
  if (needsToken(operation)) addToken(form);
  else form.querySelector(".token").remove();
  form.querySelector(".headers").hidden = form.querySelector(".code").hidden = true;
  addCopyButton(form.querySelector(".code"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void call(operation, form);
  });
  form.querySelector(".close").addEventListener("click", () => {
    form.remove();
    button.hidden = false;
    button.focus();
  });
  operation.querySelector(".calls").after(form);
  button.hidden = true;
  const first = form.querySelector("input") ?? form.querySelector("[type=submit]");
  first.focus();
  if (!form.querySelector("input:required")) void call(operation, form);
}

const operations = [...document.querySelectorAll(".operation")];
for (const operation of operations.filter((operation) => operation.dataset.try)) {
  const button = part(".try");
  button.addEventListener("click", () => open(operation, button));
  // A name that tells the buttons apart for screen readers.
  button.setAttribute("aria-describedby", `${operation.id}-name`);
  operation.querySelector("h3").id = `${operation.id}-name`;
  operation.querySelector(".calls").after(button);
}

// --- The language of code ---

const LANGUAGE = "bot-companion:calls";

/** Shows every call in this language. */
function showCalls(language) {
  for (const call of document.querySelectorAll(".calls details")) call.open = call.dataset.call === language;
}

for (const summary of document.querySelectorAll(".calls summary")) {
  summary.addEventListener("click", (event) => {
    event.preventDefault();
    const language = summary.parentElement.dataset.call;
    const before = summary.getBoundingClientRect().top;
    showCalls(language);
    // The code above has changed its height, so keep the clicked tab in place.
    scrollBy({ top: summary.getBoundingClientRect().top - before, behavior: "instant" });
    try {
      localStorage.setItem(LANGUAGE, language);
    } catch {
      // Storage is blocked, so the choice only lasts for this page.
    }
  });
}
try {
  const language = localStorage.getItem(LANGUAGE);
  if (document.querySelector(`.calls [data-call="${CSS.escape(language)}"]`)) showCalls(language);
} catch {
  // Storage is blocked.
}

// --- The filter ---

const texts = new Map(
  operations.map((operation) => {
    const told = ["h3", ".route", ".prose"].map((selector) => operation.querySelector(selector).textContent);
    return [operation.id, [operation.id, ...told].join(" ").toLowerCase()];
  }),
);

/** Shows what matches every word: operations, their groups, and their links in the tables of contents. */
function filter(sought) {
  const words = sought.toLowerCase().split(/\s+/).filter(Boolean);
  const isShown = (id) => !texts.has(id) || words.every((word) => texts.get(id).includes(word));
  for (const operation of operations) operation.hidden = !isShown(operation.id);
  for (const group of document.querySelectorAll("[data-operations]")) {
    group.hidden = !group.querySelector(".operation:not([hidden])");
  }
  for (const entry of document.querySelectorAll(".contents li")) {
    const links = [...entry.querySelectorAll("a")].map((link) => link.hash.slice(1));
    entry.hidden = !links.some((id) => texts.has(id) ? isShown(id) : links.length === 1);
  }
  const isEmpty = operations.every((operation) => operation.hidden);
  for (const box of document.querySelectorAll(".filter")) {
    const input = box.querySelector("input");
    if (input.value !== sought) input.value = sought;
    const told = box.querySelector(".none");
    told.textContent = isEmpty ? told.dataset.none : "";
  }
}

if (operations.length > 0) {
  for (const place of document.querySelectorAll(".contents")) {
    const box = part(".filter");
    const input = box.querySelector("input");
    input.addEventListener("input", () => {
      filter(input.value);
      // The table beside the text stays put, so the matches can be scrolled into view.
      if (place.matches(".beside")) operations.find((operation) => !operation.hidden)?.scrollIntoView();
    });
    input.addEventListener("keydown", (event) => {
      if (event.key === "Escape") filter("");
    });
    place.querySelector("ul").before(box);
  }
  // Following a link to a hidden operation shows it.
  addEventListener("hashchange", () => {
    const target = document.getElementById(location.hash.slice(1));
    if (target?.closest("[hidden]")) {
      filter("");
      target.scrollIntoView();
    }
  });
}

// --- Where the visitor is ---

const links = new Map([...document.querySelectorAll(".contents.beside a")].map((link) => [link.hash.slice(1), link]));
const headings = [...links.keys()].map((id) => document.getElementById(id));

/** Marks the link of the last heading that was scrolled past. */
function mark() {
  const visible = headings.filter((heading) => (heading.checkVisibility ? heading.checkVisibility() : heading.offsetParent));
  const here = visible.findLast((heading) => heading.getBoundingClientRect().top < innerHeight / 4);
  for (const [id, link] of links) {
    if (id !== here?.id) link.removeAttribute("aria-current");
    else if (!link.hasAttribute("aria-current")) {
      link.setAttribute("aria-current", "location");
      link.scrollIntoView({ block: "nearest" });
    }
  }
}

let isDue = false;
addEventListener("scroll", () => {
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(() => {
    isDue = false;
    mark();
  });
}, { passive: true });
mark();
