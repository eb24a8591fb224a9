"""A server of protocol 2026-07-28 that asks for input by results. Its key outlives the process, as does its state."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from mcp.server import MCPServer
from mcp.server.mcpserver.resolve import Elicit, Resolve
from mcp.server.request_state import RequestStateSecurity
from pydantic import BaseModel

FILE, KEY = Path(sys.argv[1]), sys.argv[2].encode() * 32
server = MCPServer("booking", request_state_security=RequestStateSecurity(keys=[KEY[:32]], ttl=86400))


class Day(BaseModel):
    day: str


class Room(BaseModel):
    floor: int


def which_day(city: str) -> Elicit[Day]:
    return Elicit(f"Which day in {city}?", Day)


def which_room(city: str) -> Elicit[Room]:
    return Elicit(f"Which floor in {city}?", Room)


@server.tool()
def book(city: str, when: Annotated[Day, Resolve(which_day)], room: Annotated[Room, Resolve(which_room)]) -> str:
    """Book a hotel."""
    with FILE.open("a") as file:
        file.write(f"{city} {when.day} {room.floor}\n")
    return f"booked {city} on {when.day}, floor {room.floor}"


server.run("stdio")
