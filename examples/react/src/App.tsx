import type { Guild } from "@bot-companion/web";
import { useCompanion, useGuilds, useSession, useStatus } from "@bot-companion/web/react";
import { useState } from "react";
import { kindly } from "./kindly";

export function App() {
  const companion = useCompanion();
  // `isLoaded` is false while the provider completes a sign-in.
  const { isLoaded, user, error, reason } = useSession();
  const [failure, setFailure] = useState<unknown>();
  const problem = failure ?? error;

  const run = (action: () => Promise<void>) => () => {
    setFailure(undefined);
    action().catch(setFailure);
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
          isLoaded && <button onClick={run(() => companion.signIn())}>Sign in</button>
        )}
      </header>
      <main>
        <p role="alert">{problem !== undefined && kindly(problem)}</p>
        {user ? <Servers /> : <p role="status">{!isLoaded ? "Loading…" : reason === "ended" ? "Your session has ended. You're signed out." : "You're signed out."}</p>}
      </main>
      <footer>
        <BotStatus />
      </footer>
    </>
  );
}

function Servers() {
  // Reloads by itself when the bot has changed something.
  const { data: guilds, error, updatedAt, reload } = useGuilds();
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
      {updatedAt && <p>Updated at {new Date(updatedAt).toLocaleTimeString()}</p>}
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
