"""Making previews with the tool's own function, under a timeout.

A preview that fails says why, and never stops a question.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from msgspec import Raw

from ..core import facts as f
from ..core.digest import canonical, parse_object
from ..core.wording import worded
from ..definitions.calling import call_function
from ..definitions.context import RunContextWrapper
from ..definitions.preview import failed_preview, preview_json
from ..definitions.tool import Tool, qualified_name
from ..errors import InvalidDefinition


async def preview_of(tool: Tool, ctx: RunContextWrapper[Any], args: dict[str, Any]) -> Raw:
    """Return the preview of a call as JSON; no JSON if the tool makes none."""
    if tool.preview is None:
        return f.NOTHING
    limit = asyncio.timeout(tool.preview_timeout)
    try:
        async with limit:
            own = parse_object(canonical(args).decode())  # a preview must not change the arguments that run
            return preview_json(await call_function(partial(tool.preview, ctx, own)))
    except (Exception, asyncio.CancelledError) as error:
        unless_stopped(error)
        if limit.expired():
            what = f"it took longer than {tool.preview_timeout:g} seconds"
        else:
            what = str(error) if type(error) is InvalidDefinition else f"it failed with {worded(error)}"
    return failed_preview(f"The preview {qualified_name(tool.preview)} could not be made: {what}.")


def unless_stopped(error: BaseException) -> None:
    """Raise the error if it is the cancellation of this task. One that user code raised itself is a failure."""
    task = asyncio.current_task()
    if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
        raise error
