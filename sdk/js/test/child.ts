// A bot process that has feedback to send and is killed: see `kill.ts`.
import { type Options, attach } from "../src/index.js";
import { FakeClient } from "./support.js";

const { options, entries, hasOwnListener } = JSON.parse(process.argv[2] ?? "{}") as { options: Options; entries: string[]; hasOwnListener?: boolean };
// No shard becomes ready, so only this feedback is sent, and not before the close.
const companion = attach(new FakeClient(), options);
if (hasOwnListener) process.on("SIGTERM", () => process.exit(7));
for (const id of entries) {
  const submitter = { id: "5", username: "marlow" };
  void companion.feedback({ id, feedback: "Fine", rating: 5, timestamp: 1, submitter }).then(({ delivered }) => console.log(`${id} ${delivered}`));
}
console.log("queued");
// Runs until it or the test is killed.
process.stdin.resume();
