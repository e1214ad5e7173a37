-- The layout of a Redis that is the whole store. The reference is protocol/lease.rs.
-- v: what tells its keys from others'; in_record: a number that only its records have.
local layout = { v = '1', in_record = 'floor' }
