-- The layout of a Redis that is one member of a quorum. The reference is protocol/quorum/member.rs.
-- v: what tells its keys from others'; in_lease: 1 once the lease was raised or renewed, so that its candidate may
-- lead, else 0; in_record: the greatest token of a term that its holder gave back.
local layout = { v = 'q1', in_lease = 'confirmed', in_record = { 'over' } }
