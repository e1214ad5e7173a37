-- The layout of a Redis that is the whole store. The reference is protocol/reference/lease.rs.
-- v: what tells its keys from others'; in_record: the numbers that only its records have. lease_ms: how long the last
-- term's lease was given for, or longer while a guard stands that was set for longer; until: when it ends by its TTL.
-- is_watched: whoever wants a role that was not released watches its record first.
local layout = { v = '1', in_record = { 'floor', 'lease_ms', 'until' }, is_watched = true, texts = {} }
