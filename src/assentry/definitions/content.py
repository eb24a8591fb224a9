"""Outputs of tools that are more than text: images and files, which the model gets as content parts."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct


class ToolOutputText(Struct, frozen=True):
    """A text among the parts of a tool's output."""

    text: str


class ToolOutputImage(Struct, frozen=True):
    """An image: an address or a `data:` URL, or the id of a file at the provider."""

    image_url: str | None = None
    file_id: str | None = None
    detail: Literal["low", "high", "auto"] | None = None


class ToolOutputFileContent(Struct, frozen=True):
    """A file: its content in base64, an address, or its id at the provider."""

    file_data: str | None = None
    file_url: str | None = None
    file_id: str | None = None
    filename: str | None = None


_KINDS: dict[type[Any], str] = {
    ToolOutputText: "input_text",
    ToolOutputImage: "input_image",
    ToolOutputFileContent: "input_file",
}


def tool_output_parts(value: Any) -> list[dict[str, Any]] | None:
    """Return a tool's output as content parts; None if it is not made of them."""
    values = value if isinstance(value, list | tuple) else (value,)
    if not values:
        return None
    for each in values:
        if type(each) not in _KINDS:
            return None
    return [{"type": _KINDS[type(each)], **_fields(each)} for each in values]


def _fields(part: Struct) -> dict[str, Any]:
    every = {name: getattr(part, name) for name in part.__struct_fields__}
    return {name: value for name, value in every.items() if value is not None}
