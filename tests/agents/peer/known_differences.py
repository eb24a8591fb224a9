"""Parameters, fields and methods of the SDK that the skin does not have, by the words of the guide that say so.

A pattern stands for all that it fits; every pattern must fit something.
"""

KNOWN: dict[str, tuple[str, ...]] = {}
