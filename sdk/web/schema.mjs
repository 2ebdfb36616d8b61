// Writes src/schema.ts: the types of the service's OpenAPI document, as far as a dashboard needs them. `--print` shows it instead.
import { readFileSync, writeFileSync } from "node:fs";
import openapiTS, { astToString } from "openapi-typescript";

const document = JSON.parse(readFileSync(new URL("../../openapi.json", import.meta.url), "utf8"));

// What is for the bot and for operators is left out, and with it every component that only they use.
for (const path of Object.keys(document.paths)) {
  if (/^\/(bot\/|ready$|openapi\.json$)/.test(path)) delete document.paths[path];
}
// Examples are no types.
const withoutExamples = (value) => {
  if (value === null || typeof value !== "object") return;
  delete value.examples;
  Object.values(value).forEach(withoutExamples);
};
withoutExamples(document);

const used = new Set();
const visit = (value) => {
  if (value === null || typeof value !== "object") return;
  if (typeof value.$ref === "string" && !used.has(value.$ref)) {
    used.add(value.$ref);
    visit(value.$ref.slice(2).split("/").reduce((node, name) => node[name], document));
  }
  Object.values(value).forEach(visit);
};
visit(document.paths);
// The client has a method per operation, so what remains is the schemas; an answer's envelope is opened in one place.
const schemas = Object.entries(document.components.schemas).filter(
  ([name]) => used.has(`#/components/schemas/${name}`) && !/(Response|Error)$/.test(name),
);
document.paths = {};
document.components = { schemas: Object.fromEntries(schemas) };

const text = `// Generated from openapi.json by \`npm run schema\`. Do not edit.\n\n${astToString(await openapiTS(document))}`;
if (process.argv.includes("--print")) process.stdout.write(text);
else writeFileSync(new URL("src/schema.ts", import.meta.url), text);
