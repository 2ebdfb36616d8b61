import type { Guild } from "@bot-companion/web";
import { useCompanion, useGuilds, useStatus, useUser } from "@bot-companion/web/react";
import { useState } from "react";
import { kindly } from "./kindly";
import { useSignInEnd } from "./useSignInEnd";

export function App() {
  const companion = useCompanion();
  const user = useUser();
  const [problem, setProblem] = useState<unknown>();
  const isEnding = useSignInEnd(setProblem);

  const run = (action: () => Promise<void>) => () => {
    setProblem(undefined);
    action().catch(setProblem);
  };

  return (
    <>
      <header>
        <h1>Lantern</h1>
        {user ? (
          <>
            <img src={user.avatar} alt="" />
            <strong>{user.name}</strong>
            <button onClick={run(companion.signOut)}>Sign out</button>
            <button onClick={run(companion.signOutEverywhere)}>Sign out everywhere</button>
          </>
        ) : (
          !isEnding && <button onClick={run(() => companion.signIn())}>Sign in</button>
        )}
      </header>
      <main>
        <p role="alert">{problem !== undefined && kindly(problem)}</p>
        {user ? <Servers /> : <p role="status">{isEnding ? "Signing you in…" : "You're signed out."}</p>}
      </main>
      <footer>
        <BotStatus />
      </footer>
    </>
  );
}

function Servers() {
  // Reloads by itself when the bot has changed something.
  const { data: guilds, error, reload } = useGuilds();
  return (
    <section aria-labelledby="servers">
      <h2 id="servers">Your servers</h2>
      <ul aria-labelledby="servers">
        {guilds?.map((guild) => (
          <Server key={guild.id} guild={guild} />
        ))}
      </ul>
      <p role="alert">{error && kindly(error)}</p>
      {error && <button onClick={() => reload({ fresh: true })}>Try again</button>}
      <p role="status">
        {!guilds && !error && "Loading…"}
        {guilds?.length === 0 && "None of your servers have the bot yet."}
      </p>
    </section>
  );
}

function Server({ guild }: { guild: Guild }) {
  return (
    <li>
      <img src={guild.icon} alt="" loading="lazy" />
      <strong dir="auto">{guild.name}</strong>
      {guild.role ?? "Member"} · {guild.members.toLocaleString()} {guild.members === 1 ? "member" : "members"}
    </li>
  );
}

function BotStatus() {
  const uptime = useStatus().data?.health.bot.uptime.readable;
  if (!uptime) return null;
  return <p role="status">{uptime === "offline" ? "The bot is offline." : `The bot has been online for ${uptime}.`}</p>;
}
