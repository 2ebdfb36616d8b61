import { useCompanion } from "@bot-companion/web/react";
import { useEffect, useState } from "react";

/** Completes the sign-in after the provider's redirect, and returns whether that is in progress. Strict mode runs the effect
 * twice; `handleCallback` returns the same promise to both, so only one session is created. */
export function useSignInEnd(onProblem: (problem: unknown) => void): boolean {
  const companion = useCompanion();
  const [isEnding, setIsEnding] = useState(true);

  useEffect(() => {
    let isGone = false;
    companion
      .handleCallback()
      .then(
        (signedIn) => signedIn && history.replaceState(null, "", signedIn.returnTo),
        (problem: unknown) => {
          history.replaceState(null, "", "/");
          if (!isGone) onProblem(problem);
        },
      )
      .finally(() => {
        if (!isGone) setIsEnding(false);
      });
    return () => {
      isGone = true;
    };
  }, [companion, onProblem]);

  return isEnding;
}
