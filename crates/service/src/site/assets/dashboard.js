// The dashboard at /site/dashboard, without a framework or a build step: the page has the elements and the words, and this script fills
// them through the client `@bot-companion/web`. To write your own dashboard, start here; `docs/dashboard.md` has the rest.
//
//  - The session: `handleCallback` completes a sign-in, `onSession` reports every change, from any tab.
//  - The data: `watch` fetches now and whenever the live stream says that something has changed.
//  - Safety: names come from strangers, so they become text, never HTML; pictures are only the provider's own.

const element = (id) => document.getElementById(id);
const words = JSON.parse(element("words").textContent);
const language = document.documentElement.lang;

// --- Words -------------------------------------------------------------------------------------------------------------------

/** The parts of a sentence, with text or elements in place of each `{…}`. */
function parts(sentence, values = {}) {
  return sentence.split(/\{(\w+)\}/).map((part, index) => (index % 2 ? values[part] : part));
}
const fill = (sentence, values) => parts(sentence, values).join("");

const numbers = new Intl.NumberFormat(language);
const plurals = new Intl.PluralRules(language);
const counted = (forms, count) => fill(forms[plurals.select(count)] ?? forms.other, { count: numbers.format(count) });

/** "3 minutes ago". */
const ago = (time) => times.ago(time, words.justNow);
/** The same as an element, which is kept up to date. */
const when = (time) => times.agoElement(time, words.justNow);
setInterval(() => {
  for (const time of document.querySelectorAll("#dashboard time")) time.textContent = ago(Date.parse(time.dateTime));
}, 30_000);

// Program against an error's `code`. Some codes mean the same to a person.
const alike = {
  idp_timeout: "idp_unavailable",
  store_unavailable: "overloaded",
  timeout: "overloaded",
  draining: "overloaded",
};
/** What went wrong and what to do, as text and elements. */
function told(error) {
  const code = alike[error.code] ?? error.code;
  const isOurs = code === "idp_misconfigured";
  const known = words.failures[code];
  const wait = error.retryAfter ? counted(words.tryAgainIn, error.retryAfter) : words.tryAgainSoon;
  if (known && !isOurs) return [fill(known, { wait })];
  const { contact, contactUrl } = element("dashboard").dataset;
  const link = isOurs && contact && make("a", { href: contactUrl, rel: "noopener noreferrer" }, contact);
  const sentence = known ?? words.failures.other;
  // "Tell the bot's team: Support."
  const problem = make("span", {}, ...(link ? [sentence.replace(/\.$/, ": "), link, "."] : [sentence]));
  // With the ID, the request can be found in the service's log.
  return error.requestId ? parts(words.withId, { problem, id: error.requestId }) : [problem];
}

// --- Elements ----------------------------------------------------------------------------------------------------------------

/** An element with attributes and children. Strings become text: nothing here is ever read as HTML. */
function make(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}
/** A name within a sentence: whatever direction it is written in, the rest of the sentence keeps its own. */
const named = (name) => make("bdi", { class: "named" }, name);
const show = (id, isShown) => (element(id).hidden = !isShown);
/** Sets or clears the content of an element whose `role` makes screen readers announce it. */
const say = (id, ...said) => element(id).replaceChildren(...said.filter((part) => part !== ""));

/** Only the provider's own pictures, whose host the page names: any other host could track who visits. */
function pictureAddress(address) {
  const { pictures, defaultPicture } = element("dashboard").dataset;
  return address.startsWith(pictures) ? address : defaultPicture;
}
const picture = (address) => make("img", { src: pictureAddress(address), alt: "", width: 44, height: 44, loading: "lazy" });

/**
 * Makes the entries of a list those of `items`. An entry that has not changed stays the same element, so that nothing flickers and
 * the keyboard's focus stays where it is; one that has changed takes over what was open and focused in the old one.
 */
function fillList(list, items, makeEntry) {
  const old = new Map([...list.children].map((entry) => [entry.dataset.id, entry]));
  const focusable = (entry) => [...(entry?.querySelectorAll("a, button, summary") ?? [])];
  const focused = list.contains(document.activeElement) ? document.activeElement : undefined;
  const focusedEntry = focused?.closest("[data-id]");
  const position = focusable(focusedEntry).indexOf(focused);

  const entries = items.map((item) => {
    const text = JSON.stringify(item);
    const before = old.get(item.id);
    if (before?.shows === text) return before;
    const entry = makeEntry(item);
    entry.dataset.id = item.id;
    entry.shows = text;
    const details = entry.querySelector("details");
    if (details && before?.querySelector("details[open]")) details.open = true;
    return entry;
  });
  // In place: an element that is removed and put back loses focus.
  entries.forEach((entry, index) => {
    if (list.children[index] !== entry) list.insertBefore(entry, list.children[index] ?? null);
  });
  while (list.children.length > entries.length) list.lastElementChild.remove();

  if (!focused || document.activeElement === focused) return;
  const after = entries.find((entry) => entry.dataset.id === focusedEntry.dataset.id);
  // If the entry is gone, focus the heading, so that keyboard users stay near where they were, not at the top of the page.
  (focusable(after)[position] ?? element(list.getAttribute("aria-labelledby"))).focus();
}

// --- The client --------------------------------------------------------------------------------------------------------------

/** What was read last, `{ mine, invitable }`, and what went wrong if there was another try since. */
let servers;
let serversProblem;
/** Whether the provider's rate limit is delaying the sign-in. */
let isHeld = false;
/** When the list was read from the provider, by the server's clock. */
let listRead;
let isRefreshing = false;
let isBotSilent = false;

// The page knows the addresses, which change with their content.
const page = document.documentElement.dataset;
const load = Promise.all([page.times, element("dashboard").dataset.client].map((address) => import(address)));
load.catch(() => {
  show("loading", false);
  say("problem", words.scriptFailed);
  addEventListener("online", () => location.reload());
});
const [times, { createCompanion }] = await load;

/** The error code in a response, if any. Reads a copy, because the client reads the response itself. */
async function errorCode(response) {
  const answer = await response.clone().json().catch(() => undefined);
  return answer?.data?.error;
}

// The session is kept in `localStorage`, which all tabs share. `docs/dashboard.md` compares the alternatives.
const companion = createCompanion({
  url: location.origin + document.documentElement.dataset.base,
  // Times are shown by the service's clock.
  fetch: async (address, init) => {
    const response = await fetch(address, { credentials: "omit", ...init });
    times.setClock(response);
    if (address.endsWith("/auth")) isHeld = !response.ok && (await errorCode(response)) === "idp_rate_limited";
    return response;
  },
});

// --- Signing in and out ------------------------------------------------------------------------------------------------------

/** Runs a button's action, one at a time, and reports failures. */
function onClick(id, action) {
  const button = element(id);
  button.addEventListener("click", async () => {
    // Not `disabled`, which would remove the focus.
    if (button.ariaBusy === "true") return;
    button.ariaBusy = "true";
    say("problem");
    try {
      await action();
    } catch (error) {
      say("problem", ...told(error));
      // The message says to check the connection. It's obsolete once the network is back.
      if (error.code === "network") addEventListener("online", () => say("problem"), { once: true });
    } finally {
      button.ariaBusy = null;
    }
  });
}

/** Says why a sign-in takes more than two seconds: the client may retry for more than a minute. */
async function sayIfSlow(signIn) {
  let said;
  const timer = setInterval(() => {
    const reason = isHeld ? words.signInWaits : words.signInIsSlow;
    // Setting the same text again would announce it again.
    if (reason !== said) say("notice", (said = reason));
  }, 2000);
  try {
    return await signIn;
  } finally {
    clearInterval(timer);
    if (said && element("notice").textContent === said) say("notice");
  }
}

onClick("sign-in", async () => {
  await sayIfSlow(companion.signIn());
  // The browser is on its way to the provider's page; a second click would start a second sign-in.
  await new Promise((resolve) => {
    addEventListener("pageshow", resolve, { once: true });
    setTimeout(resolve, 5000);
  });
});
onClick("sign-out", companion.signOut);
onClick("sign-out-everywhere", companion.signOutEverywhere);

function showPerson(session) {
  show("loading", false);
  show("signed-out", !session);
  show("signed-in", session !== null);
  if (session) {
    element("person-name").textContent = session.user.name;
    element("person-username").textContent = `@${session.user.username}`;
    element("avatar").src = pictureAddress(session.user.avatar);
    show("servers-loading", !servers && !serversProblem);
    showView();
  } else {
    // Nothing about one user may be left on the page for the next one.
    element("avatar").removeAttribute("src");
    for (const id of ["person-name", "person-username", "missing-answer"]) element(id).replaceChildren();
    for (const id of ["search", "missing-server"]) element(id).value = "";
    shown.servers = shown.invitable = STEP;
  }
  // If the focused element is hidden now, keyboard users continue at the start of the new view.
  if (document.activeElement.closest("#dashboard [hidden]")) element(session ? "servers-title" : "sign-in").focus();
}

companion.onSession((session, reason) => {
  say("problem");
  say("notice", session ? "" : reason === "signed_out" ? words.signedOut : words.sessionEnded);
  say("announcement", session ? fill(words.signedIn, { name: session.user.name }) : "");
  showPerson(session);
});

// --- Views -------------------------------------------------------------------------------------------------------------------

/** Shows the view that the address names, or the first one, so that the back button and links to a view work. */
function showView() {
  const links = [...element("views").querySelectorAll("a")];
  const chosen = links.find((link) => link.hash === location.hash) ?? links[0];
  for (const link of links) {
    if (link === chosen) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
    show(link.dataset.view, link === chosen);
  }
}
addEventListener("hashchange", showView);

// --- Servers -----------------------------------------------------------------------------------------------------------------

// Servers where the user can do the most come first. Otherwise, the service's order stays.
const RANKS = ["Owner", "Manager", "Administrator", "Moderator", undefined];
const rank = (guild) => RANKS.indexOf(guild.role ?? undefined);
const byRank = (guilds) => [...guilds].sort((a, b) => rank(a) - rank(b));

/** A server's name, linked to the page where people manage it if there is one. */
function nameOf(guild, manage = undefined) {
  const name = make("bdi", {}, guild.name);
  const address = manage?.replaceAll("{guild}", encodeURIComponent(guild.id));
  return make("strong", { class: "name clamp" }, address ? make("a", { class: "whole-card", href: address }, name) : name);
}
const roleOf = (guild) => words.roles[guild.role ?? "Member"];

/** The permission keys that are `true`; all 20 are always there. Some describe the server or the person instead. */
const keysOf = (guild) => Object.keys(guild.permissions).filter((key) => guild.permissions[key]);
/** What allows the most comes first. */
const STRENGTH = ["MANAGE_SERVER", "ADMIN", "MOD", "ERLC_MANAGER", "ERLC_ADMIN", "ERLC_STAFF", "SESSION_STARTER"];
const isFact = (key) => words.serverFacts.includes(key) || words.personFacts.includes(key);
const meanings = (list, keys) => make("ul", { class: list }, ...keys.map((key) => make("li", {}, words.permissionNames[key] ?? key)));

function serverEntry(guild) {
  const keys = keysOf(guild);
  const permissions = keys.filter((key) => !isFact(key)).sort((a, b) => STRENGTH.indexOf(a) - STRENGTH.indexOf(b));
  const facts = keys.filter((key) => words.serverFacts.includes(key));
  const details = make("details", {}, make("summary", {}, permissions.length > 0 ? words.permissions : words.aboutServer));
  // Created on demand: there may be 200 servers.
  details.addEventListener("toggle", () => {
    if (!details.open || details.children.length > 1) return;
    if (permissions.length > 0) details.append(meanings("permissions", permissions));
    if (permissions.length > 0 && facts.length > 0) details.append(make("h3", {}, words.aboutServer));
    if (facts.length > 0) details.append(meanings("server-facts", facts));
  });
  const role = make("span", { class: guild.role ? "chip role-here" : "chip" }, roleOf(guild));
  const line = make("p", { class: "facts" }, role);
  if (guild.plus.active) line.append(" ", make("span", { class: "chip premium" }, words.premium));
  if (guild.members) line.append(" ", make("span", { class: "quiet" }, counted(words.members, guild.members)));
  const head = make("div", { class: "server-head" }, picture(guild.icon), make("div", { class: "grow" }, nameOf(guild, element("dashboard").dataset.manage), line));
  const entry = make("li", { class: "card server" }, head);
  if (permissions.length + facts.length > 0) entry.append(details);
  return entry;
}

/** Opens the provider's page for adding the bot in another tab: the server appears here as soon as the bot is in it. */
const inviteLink = (guild, text) => make("a", { href: guild.invite, target: "_blank", rel: "noopener noreferrer" }, text);

function invitableEntry(guild) {
  const link = inviteLink(guild, words.invite);
  link.className = "button small";
  link.ariaLabel = `${fill(words.inviteTo, { name: guild.name })} ${words.newTab}`;
  const head = make("div", { class: "server-head" }, picture(guild.icon), make("div", { class: "grow" }, nameOf(guild)));
  return make("li", { class: "card server" }, head, link);
}

/** For searching: "cafe" finds "CAFÉ". */
const plain = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLocaleLowerCase(language).trim();
const isMatch = (guild, text) => guild.id === text.trim() || plain(guild.name).includes(plain(text));

/** How many servers a list shows at first, and how many more per click, so that 150 servers don't fill 150 screens of a phone. */
const STEP = 24;
/** Fewer servers than this are found without a search. */
const SEARCHABLE = 8;
const shown = { servers: STEP, invitable: STEP };

/** Shows the first matching entries of a list, and a button for more. */
function showSome(id, found = () => true) {
  const entries = [...element(id).children];
  const matching = entries.filter((entry) => found(entry.dataset.id));
  const visible = new Set(matching.slice(0, shown[id]));
  for (const entry of entries) entry.hidden = !visible.has(entry);
  const rest = matching.length - visible.size;
  show(`more-${id}`, rest > 0);
  element(`more-${id}`).textContent = counted(words.showMore, Math.min(rest, STEP));
}
function showMore(id, again) {
  const last = [...element(id).children].findLast((entry) => !entry.hidden);
  shown[id] += STEP;
  again();
  // Keyboard users continue at the first new entry.
  let next = last?.nextElementSibling;
  while (next?.hidden) next = next.nextElementSibling;
  next?.querySelector("a, button, summary")?.focus();
}
element("more-servers").addEventListener("click", () => showMore("servers", showMatches));
element("more-invitable").addEventListener("click", () => showMore("invitable", () => showSome("invitable")));

function showMatches() {
  if (!servers) return;
  const text = element("search").value;
  const found = new Set(servers.mine.filter((guild) => isMatch(guild, text)).map((guild) => guild.id));
  showSome("servers", (id) => found.has(id));
  show("no-matches", found.size === 0 && servers.mine.length > 0);
  const all = counted(words.servers, servers.mine.length);
  const matches = text.trim() === "" ? all : fill(words.matches, { count: numbers.format(found.size), all });
  // Setting the same text again would announce it again.
  if (element("matches").textContent !== matches) element("matches").textContent = matches;
}

/** Shows the facts about the person, which are the same in every server. */
function showPersonFacts(guilds) {
  const keys = new Set(guilds.flatMap(keysOf));
  const facts = words.personFacts.filter((key) => keys.has(key)).map((key) => make("li", { class: "chip" }, words.permissionNames[key] ?? key));
  element("person-facts").replaceChildren(...facts);
}

function showServers({ data, error, loading }) {
  servers = data;
  serversProblem = error;
  show("servers-loading", loading && !data);
  // The old list stays, with a note on why it isn't newer.
  show("servers-failed", error !== undefined && companion.session() !== null);
  say("servers-problem", ...(error ? told(error) : []));
  const { mine = [], invitable = [] } = data ?? {};
  fillList(element("servers"), byRank(mine), serverEntry);
  fillList(element("invitable"), invitable, invitableEntry);
  showSome("invitable");
  showPersonFacts(mine);
  element("servers-count").textContent = data ? numbers.format(mine.length) : "";
  element("invitable-count").textContent = data ? numbers.format(invitable.length) : "";
  show("search-row", mine.length >= SEARCHABLE);
  show("no-servers", data !== undefined && mine.length === 0);
  show("none-invitable", data !== undefined && invitable.length === 0);
  show("invitable-what", invitable.length > 0);
  show("list-row", data !== undefined);
  // "Refresh" says how it went once it is done.
  const wasRefreshed = isRefreshing && !loading && !error;
  if (!loading) isRefreshing = false;
  element("refresh").ariaBusy = isRefreshing ? "true" : null;
  if (!data) return;
  showMatches();
  element("list-age").replaceChildren(...parts(words.listRead, { ago: when(listRead) }));
  const isFresh = times.now() - listRead < 60_000;
  if (wasRefreshed) say("list-state", isFresh ? words.refreshed : fill(words.notRefreshed, { ago: ago(listRead) }));
}

// Both lists come from the same list at the provider, so they are read together. `fresh` makes the service ask the provider first.
const watched = companion.watch("guilds", async (options) => {
  let time;
  const mine = await companion.guilds({ ...options, received: (at) => (time = times.now() - (Date.now() - at)) });
  const invitable = await companion.invitableGuilds({ ...options, fresh: false });
  listRead = time;
  return { mine, invitable };
}, showServers);

function refresh() {
  if (isRefreshing) return;
  isRefreshing = true;
  element("refresh").ariaBusy = "true";
  say("list-state");
  watched.reload({ fresh: true });
}
element("refresh").addEventListener("click", refresh);
element("try-again").addEventListener("click", () => {
  // The button disappears with the problem.
  element("servers-title").focus();
  watched.reload({ fresh: true });
});
element("search").addEventListener("input", () => {
  shown.servers = STEP;
  showMatches();
});

companion.watch("status", companion.status, ({ data, error }) => {
  times.setLost(error !== undefined && (error.code === "network" || error.status >= 500));
  isBotSilent = data?.health.bot.uptime.readable === "offline";
  show("bot-silent", isBotSilent);
});

// --- Why is my server missing? -----------------------------------------------------------------------------------------------

/** What the service knows about a server with this name or ID, as paragraphs and lists. */
function whyMissing(query) {
  if (!servers) return [make("p", {}, words.missing.unknown)];
  if (query === "") return [];
  const shown = 3;
  const find = (list) => list.filter((guild) => isMatch(guild, query)).sort((a, b) => a.name.length - b.name.length);
  const [listed, invitable] = [find(servers.mine), find(servers.invitable)];
  const answers = [
    ...listed.map((guild) => {
      const button = make("button", { class: "button small", type: "button" }, words.missing.show);
      button.addEventListener("click", () => showServer(guild.id));
      return make("p", {}, ...parts(words.missing.listed, { name: named(guild.name) }), " ", button);
    }),
    ...invitable.map((guild) => {
      const link = inviteLink(guild, `${words.invite} ${words.newTab}`);
      return make("p", {}, ...parts(words.missing.withoutBot, { name: named(guild.name) }), " ", link);
    }),
  ];
  if (answers.length > shown) {
    const more = counted(words.missing.more, answers.length - shown);
    return [...answers.slice(0, shown), make("p", { class: "quiet" }, more)];
  }
  if (answers.length > 0) return answers;

  const { name } = companion.session().user;
  const button = make("button", { class: "button small", type: "button" }, element("refresh").textContent);
  button.addEventListener("click", refresh);
  const reasons = [
    make("li", {}, ...parts(words.missing.otherAccount, { name: named(name) })),
    make("li", {}, words.missing.mayNot),
    make("li", {}, fill(words.missing.oldList, { ago: ago(listRead) }), " ", button),
  ];
  if (isBotSilent) reasons.unshift(make("li", {}, words.missing.silent));
  return [make("p", {}, ...parts(words.missing.none, { query: named(query) })), make("ul", { class: "reasons" }, ...reasons)];
}

function showServer(id) {
  element("search").value = "";
  shown.servers = Math.max(shown.servers, byRank(servers.mine).findIndex((guild) => guild.id === id) + 1);
  showMatches();
  const entry = [...element("servers").children].find((each) => each.dataset.id === id);
  entry?.scrollIntoView({ block: "center" });
  (entry?.querySelector("a, summary") ?? element("servers-title")).focus();
}

element("why-missing").addEventListener("click", () => {
  element("missing-section").open = true;
  element("missing-server").value = element("search").value;
  element("missing-server").focus();
});
element("missing").addEventListener("submit", (event) => {
  event.preventDefault();
  element("missing-answer").replaceChildren(...whyMissing(element("missing-server").value.trim()));
});

// --- Sessions ----------------------------------------------------------------------------------------------------------------

/** "Firefox on Linux", as far as the User-Agent reveals it; browsers also name other browsers, so the order matters. */
function device(agent) {
  const first = (names) => names.find(([pattern]) => pattern.test(agent))?.[1];
  const browser = first([[/Edg/, "Edge"], [/OPR/, "Opera"], [/Firefox/, "Firefox"], [/Chrom/, "Chrome"], [/Safari/, "Safari"]]);
  const system = first([[/Windows/, "Windows"], [/Android/, "Android"], [/iPhone|iPad/, "iOS"], [/Mac OS/, "macOS"], [/Linux/, "Linux"]]);
  return browser && system ? fill(words.device, { browser, system }) : agent || words.unknownDevice;
}

function sessionEntry(session) {
  const on = device(session.user_agent);
  const name = make("p", { class: "name clamp", title: session.user_agent }, named(on));
  const times = parts(words.sessionTimes, { created: when(session.created * 1000), seen: when(session.last_seen * 1000) });
  const about = make("div", { class: "grow" }, name, make("p", { class: "quiet" }, ...times));
  if (session.current) return make("li", {}, about, make("span", { class: "chip up" }, words.thisSession));
  const button = make("button", { class: "button small", type: "button" }, words.endSession);
  button.ariaLabel = fill(words.endSessionOn, { device: on });
  button.addEventListener("click", async () => {
    say("sessions-problem");
    try {
      await companion.endSession(session.id);
      say("announcement", fill(words.endedSession, { device: on }));
    } catch (error) {
      // It's also over if another device has ended it in the meantime.
      if (error.code !== "session_not_found") return say("sessions-problem", ...told(error));
    }
    sessions.reload();
  });
  return make("li", {}, about, button);
}

const sessions = companion.watch("sessions", companion.sessions, ({ data, error }) => {
  say("sessions-problem", ...(error && companion.session() ? told(error) : []));
  fillList(element("sessions"), data ?? [], sessionEntry);
});

// --- The start ---------------------------------------------------------------------------------------------------------------

try {
  // Finishes a sign-in, if there is one. The client removes the code and `state` from the address, and rejects sign-ins it didn't start.
  const signedIn = await sayIfSlow(companion.handleCallback());
  if (signedIn) history.replaceState(null, "", signedIn.returnTo);
} catch (error) {
  // The user went back and chose again.
  if (companion.session() && error.code === "state_mismatch") say("notice", words.signedInAlready);
  else say("problem", ...told(error));
}
showPerson(companion.session());
