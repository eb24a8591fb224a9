"""The identity of a request: a user or a token, its role, and what the role may do."""

from __future__ import annotations

from typing import Literal, get_args

from msgspec import Struct

from ..approval.decision import Decider
from ..errors import Forbidden

Role = Literal["viewer", "reviewer", "operator", "admin", "agent"]
ROLES: tuple[Role, ...] = get_args(Role)
Permission = Literal["read", "decide", "start", "ask", "grant", "stop", "audit", "manage"]

MAY: dict[Role, tuple[Permission, ...]] = {
    "viewer": ("read",),
    "reviewer": ("read", "decide"),
    "operator": ("read", "decide", "start", "grant", "stop", "audit"),
    "admin": ("read", "decide", "start", "grant", "stop", "audit", "manage"),
    "agent": ("start", "ask"),
}
"""The permissions of each role. An agent starts runs and asks about its own calls, and never decides."""


class Identity(Struct, frozen=True):
    """Somebody who was authenticated."""

    name: str
    role: Role
    groups: tuple[str, ...] = ()
    csrf: str | None = None
    """The token that forms must carry, if a browser's cookie was used; None for an API token."""

    def may(self, permission: Permission) -> bool:
        """Return True if the role allows this."""
        return permission in MAY[self.role]

    def need(self, permission: Permission) -> None:
        """Raise `Forbidden` unless the role allows this."""
        if not self.may(permission):
            raise Forbidden(f"{self.name} is {_article(self.role)}, and may not {permission} here.")

    def decider(self, shown: str | None = None, looked: int | None = None) -> Decider:
        """Return who decides, for the store; raise `Forbidden` if this role decides nothing."""
        self.need("decide")
        return Decider(self.name, self.groups, shown, looked)


def _article(role: Role) -> str:
    return f"{'an' if role[0] in 'ao' else 'a'} {role}"
