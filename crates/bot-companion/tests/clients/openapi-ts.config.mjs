export default {
  input: "openapi.json",
  // Node wants the endings of imported files.
  output: { path: "generated/hey-api", module: { extension: ".js" } },
  logs: { file: false },
};
