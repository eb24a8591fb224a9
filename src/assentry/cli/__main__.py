"""`python -m assentry.cli` is `assentry`."""

import sys

if __name__ == "__main__":
    if sys.argv[1:3] == ["hook", "run"]:  # an agent waits for it at each call of a tool: nothing else is loaded
        from .hook import answer_agent

        answer_agent(sys.argv[1:])
    from .command import main

    sys.exit(main())
