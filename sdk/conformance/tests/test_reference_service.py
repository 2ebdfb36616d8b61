"""The reference service's faults, its control API and its limits. That it keeps the feed's rules is `check`'s to say."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import unittest
import urllib.request
from collections.abc import AsyncIterator
from typing import Any

import aiohttp

from reference_service import Feed, ReferenceService, Shard

GONE = b'{"type":"subscription_gone","userid":"20"}\n'


class FaultsTest(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        self.service = ReferenceService()
        await self.service.start()
        self.session = aiohttp.ClientSession(headers={"Authorization": f"Bearer {self.service.key}"})

    async def asyncTearDown(self) -> None:
        await self.session.close()
        await self.service.stop()

    async def post(self, sequence: int, body: Any = GONE, path: str = "/bot/events", method: str = "POST") -> tuple[int, Any]:
        headers = {"Feed-Instance": "one", "Feed-Sequence": str(sequence)}
        async with self.session.request(method, self.service.url + path, data=body, headers=headers) as response:
            self.retry_after = response.headers.get("Retry-After")
            text = await response.text()
            return response.status, json.loads(text)["data"] if text.startswith("{") else text

    async def test_away_applies_nothing_and_lost_does(self) -> None:
        for kind, next_ in (("away", 1), ("lost", 2)):
            self.service.add_fault(kind)
            with self.assertRaises(aiohttp.ClientError):
                await self.post(1)
            self.assertEqual(self.service.feed.data()["next"].get("one", 1), next_, kind)
        self.assertEqual(await self.post(1), (200, {"applied": 0, "ignored": 1, "next": 2}), "a repeat")

    async def test_a_status_with_what_belongs_to_it(self) -> None:
        self.service.add_fault("status", status=429, error="rate_limited", retry_after="5", times=2)
        for _ in range(2):
            self.assertEqual(await self.post(1), (429, {"error": "rate_limited"}))
            self.assertEqual(self.retry_after, "5")
        self.assertEqual((await self.post(1))[0], 200)

    async def test_garbage_slow_and_hang(self) -> None:
        self.service.add_fault("garbage")
        self.assertEqual((await self.post(1))[1][:6], "<html>")
        self.service.add_fault("slow", seconds=0.01)
        self.assertEqual((await self.post(1))[0], 200)
        self.service.add_fault("hang", seconds=0.01)
        with self.assertRaises(aiohttp.ClientError):
            await self.post(2)
        with self.assertRaises(ValueError):
            self.service.add_fault("sulk")

    async def test_a_fault_hits_its_path_until_it_is_cleared(self) -> None:
        self.service.add_fault("status", path="/bot/events", times=0)
        self.assertEqual([(await self.post(1))[0] for _ in range(3)], [503, 503, 503])
        self.assertEqual((await self.post(1, b'{"end":0}', "/bot/subscriptions", "PUT"))[0], 200)
        self.service.clear_faults()
        self.assertEqual((await self.post(1))[0], 200)

    async def test_it_forgets(self) -> None:
        await self.post(1)
        self.service.forget()
        self.assertEqual((await self.post(2))[0], 409)

    async def test_a_restart_keeps_port_and_data(self) -> None:
        await self.post(1)
        url = self.service.url
        await self.service.stop()
        await self.service.start()
        self.assertEqual((self.service.url, (await self.post(2))[0]), (url, 200))

    async def test_one_snapshot_of_a_shard_at_a_time(self) -> None:
        arrived, go_on = asyncio.Event(), asyncio.Event()

        async def slowly() -> AsyncIterator[bytes]:
            yield b"\n"
            arrived.set()
            await go_on.wait()
            yield b'{"end":0}'

        first = asyncio.create_task(self.post(2, slowly(), "/bot/shards/1/0/guilds", "PUT"))
        await arrived.wait()
        while not self.service._uploads:
            await asyncio.sleep(0)
        self.assertEqual((await self.post(2, b'{"end":0}', "/bot/shards/1/0/guilds", "PUT"))[0], 429)
        self.assertEqual((await self.post(2, b'{"end":0}', "/bot/subscriptions", "PUT"))[0], 200)
        go_on.set()
        self.assertEqual((await first)[0], 200)

    async def test_the_key(self) -> None:
        async with aiohttp.ClientSession() as stranger, stranger.get(f"{self.service.url}/bot/state") as response:
            self.assertEqual((response.status, (await response.json())["data"]["error"]), (401, "bot_key_invalid"))


class SilenceTest(unittest.TestCase):
    def test_a_silent_process_loses_its_shard(self) -> None:
        clock = [1000.0]
        feed = Feed(now=lambda: clock[0])
        shard, whole = Shard(1, 0), b'{"end":0}'
        feed.guilds_of(shard, "old", 2, whole)
        clock[0] += 1
        feed.guilds_of(shard, "new", 2, whole)
        gone = b'{"type":"guild_gone","id":"4194304"}'
        overruled = feed.events("old", 2, gone).data
        self.assertEqual((overruled["ignored"], overruled["next"]), (1, 3))
        self.assertIn("`new`", overruled["reasons"][0])
        clock[0] += 90
        self.assertEqual(feed.events("old", 3, gone).data["error"], "resync_required")
        self.assertEqual(feed.guilds_of(shard, "old", 3, whole).status, 200)
        self.assertEqual(feed.events("old", 3, gone).data["applied"], 1)


class ProgramTest(unittest.TestCase):
    def test_the_control_api(self) -> None:
        with subprocess.Popen([sys.executable, "-m", "reference_service"], stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                url = json.loads(process.stdout.readline())["url"]

                def control(method: str, what: str, body: Any = None) -> Any:
                    data = None if body is None else json.dumps(body).encode()
                    with urllib.request.urlopen(urllib.request.Request(f"{url}/control/{what}", data, method=method)) as response:
                        return json.load(response)

                control("POST", "expect", {"instance": "one", "next": 7})
                self.assertEqual(control("GET", "data")["next"], {"one": 7})
                control("POST", "forget")
                self.assertEqual(control("GET", "data")["next"], {})
                control("POST", "faults", {"kind": "status", "status": 500})
                with self.assertRaises(urllib.error.HTTPError) as raised:
                    urllib.request.urlopen(f"{url}/bot/state")
                self.assertEqual(raised.exception.code, 500)
                self.assertEqual([one["status"] for one in control("GET", "requests")], [500])
                with self.assertRaises(urllib.error.HTTPError):
                    control("POST", "faults", {"kind": "sulk"})
            finally:
                process.terminate()


if __name__ == "__main__":
    unittest.main()
