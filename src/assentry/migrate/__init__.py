"""Programs of other libraries, rewritten for Assentry: one table for each library, and what reads and writes files.

libcst is needed here, and nowhere else. What a command prints does not belong here.
"""
