"""The same routes in FastAPI: DATA_FILE=… uvicorn --workers CORES server:app"""

import json
import os
import random
import time
from pathlib import Path

from fastapi import FastAPI, Header, HTTPException, Response
from fastapi.middleware.cors import CORSMiddleware
from models import ApiHealth, Envelope, Feedback, Guild, Latency, Status, TeamMember

DRAWN = 5

data = json.loads(Path(os.environ["DATA_FILE"]).read_text())
status = Status.model_validate(data["status"])
team = [TeamMember.model_validate(member) for member in data["team"]]
entries = [Feedback.model_validate(entry) for entry in data["feedback"]]
sessions = {
    token: [Guild.model_validate(guild) for guild in session["guilds"]] for token, session in data["sessions"].items()
}

app = FastAPI()
app.add_middleware(CORSMiddleware, allow_origins=["*"], allow_methods=["GET"], allow_headers=["Token", "Sent-Epoch"])


@app.get("/")
async def read_status(sent_epoch: float | None = Header(None)) -> Envelope[Status]:
    arrived = time.perf_counter()
    response = None if sent_epoch is None else max(0.0, (time.time() - sent_epoch) * 1000)
    latency = Latency(response=response, process=(time.perf_counter() - arrived) * 1000)
    health = status.health.model_copy(update={"api": ApiHealth(latency=latency)})
    return Envelope(data=status.model_copy(update={"health": health}))


@app.get("/team")
async def read_team(response: Response) -> Envelope[list[TeamMember]]:
    response.headers["Cache-Control"] = "public, max-age=60, stale-while-revalidate=300"
    return Envelope(data=team)


@app.get("/feedback")
async def read_feedback() -> Envelope[list[Feedback]]:
    return Envelope(data=random.sample(entries, DRAWN))


@app.get("/guilds", response_model_exclude_none=True)
async def read_guilds(response: Response, token: str = Header("")) -> Envelope[list[Guild]]:
    guilds = sessions.get(token)
    if guilds is None:
        raise HTTPException(401, "Unauthorized")
    response.headers["Cache-Control"] = "no-store"
    return Envelope(data=guilds)
