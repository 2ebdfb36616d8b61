import adapter from "@sveltejs/adapter-node";

/** @type {import("@sveltejs/kit").Config} */
export default {
  kit: {
    adapter: adapter(),
    // Only this site's own scripts, and no framing by other sites.
    csp: { directives: { "script-src": ["self"], "object-src": ["none"], "base-uri": ["self"], "frame-ancestors": ["none"] } },
  },
};
