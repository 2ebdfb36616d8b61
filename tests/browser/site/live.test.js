// How the pages stay up to date: one stream for all tabs, and no unnecessary reads.
import assert from "node:assert/strict";
import { HARBOUR, until } from "../harness.js";
import { HOME, STATUS, arriveOnSite, followers, onSite } from "./site.js";

const { visit } = onSite();

const streams = (visitor) => visitor.requests.filter((request) => request.url().endsWith("/live")).length;
/** How often open pages were read again. */
const readings = (visitor) => visitor.requests.filter((request) => request.resourceType() === "fetch").length;
const heading = (page, name) => page.getByRole("heading", { name, exact: true });
visit("eight tabs share one stream, and another tab takes over", async (arrive, service) => {
  const visitor = await arriveOnSite(arrive);
  const tabs = [];
  // Over HTTP/1.1, Chromium opens six connections to a host.
  for (let count = 0; count < 8; count += 1) tabs.push(await visitor.open(count % 2 ? STATUS : HOME));
  await until("all tabs follow", async () => (await followers(tabs[7])) === 8);
  assert.equal(streams(visitor), 1);
  await service.control("PUT", "bot-offline");
  for (const tab of tabs) await heading(tab, "The bot is down").waitFor();
  await tabs.shift().close();
  await until("another tab has the stream", () => streams(visitor) === 2);
  await service.control("DELETE", "bot-offline");
  for (const tab of tabs) await heading(tab, "The bot is up").waitFor();
  assert.equal(streams(visitor), 2);
});

visit("a stream that is refused is opened again", async (arrive) => {
  const visitor = await arriveOnSite(arrive);
  visitor.allow(/\/live: 503$/);
  await visitor.context.clock.install();
  await visitor.context.route("**/live", (route) => route.fulfill({ status: 503 }), { times: 2 });
  const page = await visitor.open(HOME);
  const open = visitor.context.waitForEvent("response", (response) => response.url().endsWith("/live") && response.ok());
  await until("the stream is open", async () => {
    await page.clock.fastForward(10_000);
    return streams(visitor) > 2;
  });
  await open;
});

/** The topics of each event, as lists. */
async function* events(service) {
  const { body } = await fetch(`${service.url}/live`);
  let rest = "";
  for await (const text of body.pipeThrough(new TextDecoderStream())) {
    const parts = (rest + text).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      const data = /^data: (.*)$/m.exec(part)?.[1];
      if (data) yield JSON.parse(data).changed;
    }
  }
}

// This is the last test, because it ends the demo bot.
visit("numbers that change every second are read together", async (arrive, service) => {
  const guild = { id: HARBOUR.id, owner: HARBOUR.owner, name: HARBOUR.name };
  await service.botTakesOver({ ...guild, members: 1000 });
  const visitor = await arriveOnSite(arrive);
  await visitor.context.clock.install();
  const stream = visitor.context.waitForEvent("response", (response) => response.url().endsWith("/live"));
  const page = await visitor.open(HOME);
  await stream;
  let [changes, members] = [0, 1000];
  for await (const changed of events(service)) {
    // The first event names every topic.
    if (members > 1000 && changed.includes("stats")) changes += 1;
    if (changes === 8) break;
    members += 1;
    await service.botEvent({ type: "guild", ...guild, members });
  }
  assert.ok(readings(visitor) * 2 < changes, `${readings(visitor)} readings for ${changes} changes`);
  await page.clock.fastForward(40_000);
  await page.getByText(members.toLocaleString("en"), { exact: true }).waitFor();
});
