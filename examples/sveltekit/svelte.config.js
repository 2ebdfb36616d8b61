import adapter from "@sveltejs/adapter-node";

/** @type {import("@sveltejs/kit").Config} */
export default {
  kit: {
    adapter: adapter(),
    // No script but this site's own, and no other site may show these pages in a frame.
    csp: { directives: { "script-src": ["self"], "object-src": ["none"], "base-uri": ["self"], "frame-ancestors": ["none"] } },
  },
};
