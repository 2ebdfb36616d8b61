// A bot process that has feedback to send and is killed: see `kill.ts`.
import { type Options, attach } from "../src/index.js";
import { FakeClient } from "./support.js";

const { options, entries, hasOwnListener } = JSON.parse(process.argv[2] ?? "{}") as { options: Options; entries: string[]; hasOwnListener?: boolean };
const client = new FakeClient();
const companion = attach(client, options);
if (hasOwnListener) process.on("SIGTERM", () => process.exit(7));
companion.on("synced", () => console.log("synced"));
for (const id of entries) {
  const submitter = { id: "5", username: "marlow" };
  void companion.feedback({ id, feedback: "Fine", rating: 5, timestamp: 1, submitter }).then(({ delivered }) => console.log(`${id} ${delivered}`));
}
client.ready();
console.log("queued");
// It runs until it is killed, or the test is.
process.stdin.resume();
