"""Stand-ins of LangChain's classes for a model and for tools that are not LangChain's, shown to its middleware."""

from __future__ import annotations

import functools
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool, StructuredTool
from pydantic import Field

from ...definitions.tool import Tool
from ...errors import UsageError


class AgentModel(BaseChatModel):
    """The agent's model, which is none of LangChain's, for requests to the model. It is called by the handler only."""

    model_name: str
    behind: Any = Field(default=None, exclude=True, repr=False)
    """The model itself."""

    @property
    def _llm_type(self) -> str:
        return "assentry"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        """Raise `UsageError`: see `_generate`."""
        return self._generate([])

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any) -> Any:
        raise UsageError(
            f"The model {self.model_name!r} of this agent is no chat model of LangChain, and a middleware cannot call "
            "it: call the handler with the request, or give the middleware, or the agent, a chat model of LangChain."
        )


def chat_model_for(model: Any) -> Any:
    """Return a model of LangChain as it is, and any other as a stand-in that a request carries."""
    if hasattr(model, "ainvoke"):
        return model
    return AgentModel(model_name=model.name, behind=model)


def model_behind(given: Any) -> Any:
    """Return the model that a stand-in stands for; any other model as it is."""
    return given.behind if isinstance(given, AgentModel) else given


def tool_for(tool: Any) -> Any:
    """Return a tool of LangChain as it was given, and one of ours as LangChain's, to look at and to choose."""
    if not isinstance(tool, Tool):
        return tool
    given = getattr(getattr(tool, "inner", tool), "given", None)
    return given if isinstance(given, BaseTool) else _tool_view(tool)


@functools.lru_cache(maxsize=1024)
def _tool_view(tool: Tool) -> BaseTool:
    def run(**arguments: Any) -> Any:
        raise UsageError(
            f"The tool {tool.name!r} runs when the agent's model calls it; a middleware runs it with its handler only."
        )

    spec = tool.spec
    return StructuredTool(name=tool.name, description=spec.description, args_schema=dict(spec.parameters), func=run)
