"""`python -m tests.soak`; the program is a module of its own, so that its processes can import it."""

from tests.soak.program import main

main()
