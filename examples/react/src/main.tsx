import { createCompanion } from "@bot-companion/web";
import { CompanionProvider } from "@bot-companion/web/react";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./App";
import "./style.css";

// Created once, outside any component.
const companion = createCompanion({ url: import.meta.env.VITE_COMPANION_URL ?? "http://127.0.0.1:8080" });

createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <CompanionProvider companion={companion}>
      <App />
    </CompanionProvider>
  </StrictMode>,
);
