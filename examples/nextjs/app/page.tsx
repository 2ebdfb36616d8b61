import { CompanionError, type Guild, type ServerSession } from "@bot-companion/web/server";
import { headers } from "next/headers";
import { companion } from "../lib/companion";
import { kindly } from "../lib/kindly";
import { Live } from "./live";

interface View {
  session: ServerSession;
  uptime?: string;
  guilds?: Guild[];
  updatedAt?: number;
  problem?: string;
}

/** Runs on the server, so that the token never leaves its cookie. */
async function read(): Promise<View> {
  const request = { headers: await headers() };
  const view: View = { session: await companion.session(request) };
  if (view.session.state === "unknown") view.problem = view.session.error.code;
  try {
    if (view.session.state === "unknown") return view;
    view.uptime = (await companion.api(request).status()).health.bot.uptime.readable;
    const received = (time: number) => (view.updatedAt = time);
    if (view.session.state === "in") view.guilds = await companion.api(request).guilds({ received });
  } catch (error) {
    if (!(error instanceof CompanionError)) throw error;
    view.problem = error.code;
  }
  return view;
}

export default async function Page({ searchParams }: { searchParams: Promise<Record<string, string | string[] | undefined>> }) {
  const { session, uptime, guilds, updatedAt, problem = (await searchParams)["sign_in_error"] } = await read();
  const user = session.state === "in" ? session.me.user : undefined;
  return (
    <>
      <Live userId={user?.id} />
      <header>
        <h1>Lantern</h1>
        {user ? (
          <>
            <img src={user.avatar} alt="" />
            <strong>{user.name}</strong>
            <form method="post" action="/sign-out">
              <button>Sign out</button>
            </form>
            <form method="post" action="/sign-out?everywhere">
              <button>Sign out everywhere</button>
            </form>
          </>
        ) : session.state === "out" && (
          <form action="/sign-in">
            <button>Sign in</button>
          </form>
        )}
      </header>
      <main>
        <p role="alert">{problem && kindly(String(problem))}</p>
        {user && <Servers guilds={guilds} updatedAt={updatedAt} />}
        {session.state === "out" && <p role="status">You're signed out.</p>}
      </main>
      <footer>
        <p role="status">{uptime && (uptime === "offline" ? "The bot is offline." : `The bot has been online for ${uptime}.`)}</p>
      </footer>
    </>
  );
}

function Servers({ guilds, updatedAt }: { guilds: Guild[] | undefined; updatedAt: number | undefined }) {
  if (!guilds) {
    // Works before the page's scripts do.
    return (
      <form>
        <button>Try again</button>
      </form>
    );
  }
  return (
    <section aria-labelledby="servers">
      <h2 id="servers">Your servers</h2>
      <ul aria-labelledby="servers">
        {guilds.map((guild) => (
          <li key={guild.id}>
            <img src={guild.icon} alt="" loading="lazy" />
            <strong dir="auto">{guild.name}</strong>
            {guild.role ?? "Member"} · {guild.members.toLocaleString("en")} {guild.members === 1 ? "member" : "members"}
          </li>
        ))}
      </ul>
      <p role="status">{guilds.length === 0 ? "None of your servers have the bot yet." : `Updated at ${new Date(updatedAt ?? 0).toISOString().slice(11, 16)} UTC`}</p>
    </section>
  );
}
