// A web server for this page: serves files, and index.html for every other path, including /callback. Any other
// server works too. In nginx, use `try_files $uri /index.html`.
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { extname } from "node:path";

const types = { ".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8" };
const read = (path) => readFile(new URL(`.${path}`, import.meta.url));

const server = createServer(async (request, response) => {
  const { pathname } = new URL(request.url, "http://localhost");
  const path = extname(pathname) in types ? pathname : "/index.html";
  try {
    const body = await read(path);
    response.writeHead(200, { "Content-Type": types[extname(path)] }).end(body);
  } catch {
    response.writeHead(404).end();
  }
});
// `localhost`, not 127.0.0.1: browsers and the service treat them as two different origins.
server.listen(process.env.PORT ?? 8000, "localhost", () => console.log(`http://localhost:${server.address().port}/`));
