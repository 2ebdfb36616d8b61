// Every body that the document describes has examples, and each is what its schema says; so are those of parameters and headers.
import { readFileSync } from "node:fs";
import Ajv from "ajv/dist/2020.js";
import addFormats from "ajv-formats";

const document = JSON.parse(readFileSync("openapi.json", "utf8"));
// The document has keywords that JSON Schema does not know, like `example`.
const ajv = addFormats(new Ajv({ allErrors: true, strict: false }));
ajv.addSchema(document, "document");

// Schemas are taken by where they are, so that their references are found.
const pointer = (path) => path.map((part) => encodeURIComponent(part.replaceAll("~", "~0").replaceAll("/", "~1"))).join("/");
const resolve = (value, path) => {
  while (value?.$ref) {
    path = value.$ref.split("/").slice(1).map((part) => decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~"));
    value = path.reduce((part, key) => part?.[key], document);
  }
  return [value, path];
};

const problems = [];
let checked = 0;
const check = (path, value) => {
  const validate = ajv.compile({ $ref: `document#/${pointer([...path, "schema"])}` });
  checked += 1;
  if (!validate(value)) problems.push(`${path.join(" ")}: ${ajv.errorsText(validate.errors)}`);
};
const checkAll = (where, part, path) => {
  const given = Object.values(part.examples ?? {}).map((example) => resolve(example)[0].value);
  if ("example" in part) given.push(part.example);
  if (given.length === 0) problems.push(`${where} has no example`);
  given.forEach((value) => check(path, value));
};

for (const [route, item] of Object.entries(document.paths)) {
  for (const [method, operation] of Object.entries(item)) {
    const at = ["paths", route, method];
    (operation.parameters ?? []).forEach((parameter, index) => {
      if ("example" in parameter) check([...at, "parameters", String(index)], parameter.example);
    });
    const bodies = Object.entries(operation.responses).map(([status, response]) => [status, response, [...at, "responses", status]]);
    if (operation.requestBody) bodies.push(["body", operation.requestBody, [...at, "requestBody"]]);
    for (const [name, body, from] of bodies) {
      const [described, path] = resolve(body, from);
      if (!described.content && name !== "304") problems.push(`${method} ${route} ${name} has no content`);
      for (const [type, content] of Object.entries(described.content ?? {})) {
        checkAll(`${method} ${route} ${name}`, content, [...path, "content", type]);
      }
      for (const [header, reference] of Object.entries(described.headers ?? {})) {
        const [found, place] = resolve(reference);
        checkAll(`${header} of ${method} ${route} ${name}`, found, place);
      }
    }
  }
}

if (problems.length > 0) {
  console.error([...new Set(problems)].join("\n"));
  process.exit(1);
}
console.log(`${checked} examples are what their schemas say`);
