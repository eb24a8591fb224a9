"""Hooks of coding agents: each tool call of an agent is put before the gate, and its end is reported.

A hook is no boundary. The agent starts it, and may go on without it: if the hook cannot be started, is killed or takes
too long, some agents let the call pass, and whoever may change the agent's settings can remove the hook. What is here
denies whenever it is not certain; what the agent does with that is the agent's. `dialect` says what each agent's
module knows, `answer` is what they have in common, and `process` is the life of one hook process.
"""
