// Writes src/schema.ts: the types of the service's OpenAPI document that a dashboard needs. `--print` prints them instead.
import { readFileSync, writeFileSync } from "node:fs";
import openapiTS, { astToString } from "openapi-typescript";

const document = JSON.parse(readFileSync(new URL("../../openapi.json", import.meta.url), "utf8"));

// Leaves out the routes for bots and operators, and the components that only those use.
for (const path of Object.keys(document.paths)) {
  if (/^\/(bot\/|ready$|openapi\.json$)/.test(path)) delete document.paths[path];
}
// Examples aren't part of the types.
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
// The client has a method per operation, so only the schemas are needed; the envelope is unwrapped in one place.
const schemas = Object.entries(document.components.schemas).filter(
  ([name]) => used.has(`#/components/schemas/${name}`) && !/(Response|Error)$/.test(name),
);
document.paths = {};
document.components = { schemas: Object.fromEntries(schemas) };

const text = `// Generated from openapi.json by \`npm run schema\`. Do not edit.\n\n${astToString(await openapiTS(document))}`;
if (process.argv.includes("--print")) process.stdout.write(text);
else writeFileSync(new URL("src/schema.ts", import.meta.url), text);
