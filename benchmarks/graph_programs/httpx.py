"""Sends requests to a transport that answers by itself."""

import asyncio

import httpx


def reply(request):
    if request.url.path == "/to":
        return httpx.Response(302, headers={"location": "/x"})
    return httpx.Response(200, json={"a": 1}, headers={"set-cookie": "c=1"})


with httpx.Client(
    transport=httpx.MockTransport(reply), base_url="http://x", follow_redirects=True, auth=("u", "p")
) as c:
    c.get("/to", params={"q": [1, 2]})
    c.post("/", json={"b": 2})
    c.post("/", data={"b": "2"}, files={"f": b"x"})
    with c.stream("GET", "/") as r:
        list(r.iter_lines())
    r = c.get("/")
    r.json()
    r.text
    r.raise_for_status()
    r.cookies
    r.elapsed
    httpx.URL("http://a/b?c=d").copy_with(path="/e")


async def main():
    async with httpx.AsyncClient(transport=httpx.MockTransport(reply)) as c:
        (await c.put("http://x/", content=b"y")).json()
        await c.aclose()


asyncio.run(main())
