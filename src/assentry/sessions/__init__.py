"""Sessions: the protocol of a conversation's memory, and the sessions that come with Assentry."""
