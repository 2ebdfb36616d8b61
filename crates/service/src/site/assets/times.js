// Shows times in the visitor's time zone and regional format, with UTC on hover. The server writes UTC,
// so a page without this script is right too. How long ago something was counts from the server's clock: the browser's may be wrong.

const { lang } = document.documentElement;
// The page's language as the visitor's region writes it: 9:30 PM or 21:30.
const locale = navigator.languages.find((own) => own.split("-")[0].toLowerCase() === lang) ?? lang;

const { hour12 } = new Intl.DateTimeFormat(locale, { hour: "numeric" }).resolvedOptions();
// 9:05 AM, but 09:05.
const clock = { hour: hour12 ? "numeric" : "2-digit", minute: "2-digit" };
const moment = { day: "numeric", month: "short", ...clock };
const date = { year: "numeric", ...moment };
// The names are those of the server's `TimeFormat`.
const options = { clock, seconds: { ...clock, second: "2-digit" }, moment, date };

const formats = {};
for (const name in options) formats[name] = new Intl.DateTimeFormat(locale, options[name]);
const utcFormat = new Intl.DateTimeFormat(locale, { ...date, timeZone: "UTC", timeZoneName: "short" });
const dayFormat = new Intl.DateTimeFormat(locale, { dateStyle: "medium" });
const agoFormat = new Intl.RelativeTimeFormat(lang);

/** Writes every `<time data-format>` below `root` in the visitor's zone. */
export function localise(root) {
  for (const element of root.querySelectorAll("time[data-format]")) {
    const { format, began } = element.dataset;
    const time = new Date(element.dateTime);
    if (format === "ago") {
      element.title = hover(time);
      continue;
    }
    element.textContent = formats[formatName(format, time, new Date(began ?? now()))].format(time);
    element.title = utcFormat.format(time);
  }
  for (const mark of root.querySelectorAll("[data-utc]")) mark.remove();
}

/** The end of something on the same day needs no date, and a moment in the year of `other` needs no year. */
function formatName(format, time, other) {
  if (format === "end" && dayFormat.format(time) === dayFormat.format(other)) return "clock";
  if (format !== "end" && format !== "moment") return format;
  return time.getFullYear() === other.getFullYear() ? "moment" : "date";
}

const hover = (time) => `${formats.date.format(time)} (${utcFormat.format(time)})`;

/** How far the server's clock is ahead of the browser's, in milliseconds. */
let ahead = 0;

/** Sets the clock from a response that isn't from a cache. */
export function setClock(response) {
  const sent = Date.parse(response.headers.get("Date"));
  if (!Number.isNaN(sent)) ahead = sent - Date.now();
}

/** The server's time. */
export const now = () => Date.now() + ahead;

/** "3 minutes ago"; `justNow` for less than a minute, a date for more than two weeks. */
export function ago(time, justNow) {
  const minutes = Math.floor((now() - time) / 60_000);
  if (minutes < 1) return justNow;
  if (minutes < 60) return agoFormat.format(-minutes, "minute");
  if (minutes < 24 * 60) return agoFormat.format(-Math.floor(minutes / 60), "hour");
  if (minutes < 14 * 24 * 60) return agoFormat.format(-Math.floor(minutes / (24 * 60)), "day");
  return dayFormat.format(time);
}

/** The same as an element. */
export function agoElement(time, justNow) {
  const element = document.createElement("time");
  element.dateTime = new Date(time).toISOString();
  element.title = hover(time);
  element.textContent = ago(time, justNow);
  return element;
}

/** When the page was last known to be true. */
let updated = now();

/** Says that the service can't be reached, and since when what the page shows may be out of date; or no longer says so. */
export function setLost(isLost) {
  const root = document.documentElement;
  const notice = document.getElementById("lost");
  if (!isLost) updated = now();
  if (isLost) notice.textContent = notice.dataset.text.replace("{ago}", ago(updated, notice.dataset.now));
  notice.hidden = !isLost;
  root.toggleAttribute("data-lost", isLost);
}

localise(document);
