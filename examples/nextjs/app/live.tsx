"use client";
import { useRouter } from "next/navigation";
import { useEffect } from "react";
import { followChanges } from "../lib/live";

/** Renders the page again on the server when something has changed. */
export function Live({ userId }: { userId: string | undefined }) {
  const router = useRouter();

  // Each user has their own stream.
  useEffect(() => followChanges(userId, () => router.refresh()), [router, userId]);

  // Keeps the tabs in sync about who is signed in.
  useEffect(() => {
    const tabs = new BroadcastChannel("session");
    tabs.postMessage(userId);
    tabs.onmessage = ({ data: other }) => {
      if (other !== userId) router.refresh();
    };
    return () => tabs.close();
  }, [router, userId]);

  return null;
}
