"""The result of an MCP tool as the output that the model gets."""

from __future__ import annotations

import mimetypes
from typing import TYPE_CHECKING, Any

from ..definitions.content import ToolOutputFileContent, ToolOutputImage, ToolOutputText
from ..errors import MCPToolFailed

if TYPE_CHECKING:
    from mcp.types import CallToolResult, ContentBlock

Part = ToolOutputText | ToolOutputImage | ToolOutputFileContent


def output_of(result: CallToolResult, use_structured_content: bool) -> Any:
    """Return the output of a call: text, or content parts, or the structured content if that is wanted.

    Raise `MCPToolFailed` with the server's words if the tool reports an error.
    """
    if result.is_error:
        raise MCPToolFailed(_text(result) or "The tool reported an error without a text.")
    if use_structured_content and result.structured_content is not None:
        return result.structured_content
    parts = [_part(block) for block in result.content]
    texts = [part.text for part in parts if isinstance(part, ToolOutputText)]
    if len(texts) == len(parts):
        return "\n".join(texts) if parts else ("" if result.structured_content is None else result.structured_content)
    return parts


def _text(result: CallToolResult) -> str:
    return "\n".join(part.text for part in map(_part, result.content) if isinstance(part, ToolOutputText))


def _part(block: ContentBlock) -> Part:
    if block.type == "text":
        return ToolOutputText(text=block.text)
    if block.type == "image":
        return ToolOutputImage(image_url=_data_url(block.mime_type, block.data))
    if block.type == "audio":
        return _file(block.mime_type, block.data, "audio")
    if block.type == "resource_link":
        return ToolOutputText(text=f"{block.title or block.name}: {block.uri}")
    resource = block.resource
    if hasattr(resource, "text"):
        return ToolOutputText(text=resource.text)
    kind = resource.mime_type or "application/octet-stream"
    if kind.startswith("image/"):
        return ToolOutputImage(image_url=_data_url(kind, resource.blob))
    return _file(kind, resource.blob, str(resource.uri).rsplit("/", 1)[-1] or "file")


def _data_url(kind: str, data: str) -> str:
    return f"data:{kind};base64,{data}"


def _file(kind: str, data: str, name: str) -> ToolOutputFileContent:
    if "." not in name:
        name = f"{name}{mimetypes.guess_extension(kind) or ''}"
    return ToolOutputFileContent(file_data=_data_url(kind, data), filename=name)
