"""The tool that stands for a final output which a person is asked about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..core import facts as f
from ..errors import InvalidArguments, InvalidOutput
from .agent import Agent, schema_of
from .output import WRAPPER, AgentOutputSchema
from .tool import Tool


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class OutputTool(Tool):
    """A final output in the form of a tool, so that a person can be asked about it. It has no body."""

    schema: AgentOutputSchema | None
    kind: f.CallKind = "output"

    @property
    def shape(self) -> dict[str, Any] | None:
        """The schema of the arguments that a person may give in the output's place; None if the type has no schema."""
        given = self.schema.json_schema if self.schema is not None else None
        if self.schema is None or given is None:
            return None
        definitions = given.get("$defs", {})
        plain = {key: value for key, value in given.items() if key != "$defs"}
        output = plain["properties"][WRAPPER] if self.schema.is_wrapped else plain
        shape = {"type": "object", "properties": {"output": output}, "required": ["output"]}
        return shape | ({"$defs": definitions} if definitions else {})

    def canonical(self, args: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments unchanged."""
        return args

    def bind(self, args: dict[str, Any]) -> Any:
        """Return the output as its type; raise `InvalidArguments` if it does not fit."""
        if args.keys() != {"output"}:
            raise InvalidArguments('arguments: the only argument is "output"')
        value = args["output"]
        if self.schema is None:
            if type(value) is not str:
                raise InvalidArguments("output: it must be text")
            return value
        try:
            return self.schema.as_written(value)
        except InvalidOutput as error:
            raise InvalidArguments(str(error)) from None


def output_tool(agent: Agent[Any]) -> OutputTool:
    """Return the tool that stands for this agent's final output in a question."""
    shape = schema_of(agent)
    return OutputTool(
        name="final_output",
        description=f"The final output of agent {agent.name}.",
        params_json_schema={
            "type": "object",
            "properties": {"output": {"type": "string"} if shape is None else {"description": shape.name}},
            "required": ["output"],
            "additionalProperties": False,
        },
        required=frozenset({"output"}),
        needs_approval=agent.output_needs_approval,
        version=shape.fingerprint if shape is not None else None,
        schema=shape,
    )
