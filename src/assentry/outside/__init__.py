"""Programs that Assentry does not drive: they ask here before they act.

`Approvals` and `SyncApprovals` are for programs in Python. The other modules are ways in for one library or program
each, and need it installed.
"""

from ..approval.foreign_call import CallRequest
from ..approval.rule_file import CallRule, RuleFile
from ..errors import NotApproved, NotDecided
from ..store.call_status import CallStatus
from .approvals import Approvals, AskedCall
from .blocking import SyncApprovals, SyncAskedCall
from .options import CallOptions

__all__ = [
    "Approvals",
    "AskedCall",
    "CallOptions",
    "CallRequest",
    "CallRule",
    "CallStatus",
    "NotApproved",
    "NotDecided",
    "RuleFile",
    "SyncApprovals",
    "SyncAskedCall",
]
