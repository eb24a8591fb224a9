"""Outputs of tools that are more than text: images and files, which the model gets as content parts."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, ValidationError, convert


class ToolOutputText(Struct, frozen=True):
    """A text among the parts of a tool's output; as a dict, `{"type": "text", "text": ...}`."""

    text: str
    type: Literal["text"] = "text"


class ToolOutputImage(Struct, frozen=True):
    """An image: an address or a `data:` URL, or the id of a file at the provider.

    As a dict it is `{"type": "image", "image_url": ...}`.
    """

    image_url: str | None = None
    file_id: str | None = None
    detail: Literal["low", "high", "auto"] | None = None
    type: Literal["image"] = "image"


class ToolOutputFileContent(Struct, frozen=True):
    """A file: its content in base64, an address, or its id at the provider.

    As a dict it is `{"type": "file", "file_url": ...}`.
    """

    file_data: str | None = None
    file_url: str | None = None
    file_id: str | None = None
    filename: str | None = None
    type: Literal["file"] = "file"


ToolOutputPart = ToolOutputText | ToolOutputImage | ToolOutputFileContent
_KINDS: dict[str, type[ToolOutputPart]] = {
    "text": ToolOutputText,
    "image": ToolOutputImage,
    "file": ToolOutputFileContent,
}


def tool_output_parts(value: Any) -> list[dict[str, Any]] | None:
    """Return a tool's output as content parts; None if it is not made of them."""
    if isinstance(value, str):
        return None
    found = []
    for each in value if isinstance(value, list | tuple) else (value,):
        part = _part(each)
        if part is None:
            return None
        found.append({"type": f"input_{part.type}", **_fields(part)})
    return found or None


def _part(value: Any) -> ToolOutputPart | None:
    """Return a part as it is, or read from a dict; None if the value is neither."""
    if isinstance(value, ToolOutputPart):
        return value
    kind = value.get("type") if isinstance(value, dict) else None
    if type(kind) is not str or kind not in _KINDS:
        return None
    try:
        part = convert(value, _KINDS[kind])
    except ValidationError:
        return None
    return part if _fields(part).keys() - {"detail", "filename"} else None  # it holds nothing


def _fields(part: ToolOutputPart) -> dict[str, Any]:
    every = {name: getattr(part, name) for name in part.__struct_fields__ if name != "type"}
    return {name: value for name, value in every.items() if value is not None}
