"""The steps of a drive: one module for each kind of effect that a run can owe. Ordering them belongs in the scope."""
