const target = { client: "fetch", baseUrl: { runtime: "process.env.URL" } };

export default {
  whole: { input: "openapi.json", output: { ...target, target: "generated/orval-whole.ts" } },
  // With the parameters that are sent as headers. The bot's are left out: orval does not compile a header that is a number.
  dashboard: {
    input: { target: "openapi.json", filters: { mode: "exclude", tags: ["bot"] } },
    output: { ...target, target: "generated/orval.ts", headers: true },
  },
};
