"""The things that users declare and are given: agents, tools, handoffs, guardrails, hooks, outputs, contexts, items."""
