"""Who may act for which agents: parts held under leases, fenced; how far each has come; what its agents remember.

/runtime/runs/<run>            config: what was launched
/runtime/runs/<run>/parts      one entry a part, under its owner's lease; its create revision is the owner's term
/runtime/runs/<run>/cursors    one entry a part: up to where every event has had its effect, and turns up to there
/runtime/runs/<run>/agents     one entry an agent that has state to keep
"""
