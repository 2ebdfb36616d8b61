import { useCompanion } from "@bot-companion/web/react";
import { useEffect, useState } from "react";

/** Ends a sign-in when the provider has sent the user back to this page, and tells whether that is under way. Strict mode runs the effect
 * twice; `handleCallback` gives both the same, and one session is made. */
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
