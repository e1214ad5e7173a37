-- Asks for one lock or several, all or none: R1 with R3 (tokens) and R5 (guard). Answers one of
--   granted token holds | held name ahead [owner identity token holds remaining_us] | guarded remaining_us
--   | differ name permits | exhausted
-- each after its name with the store's clock.
--
-- ARGV after the names: session id owner identity lease_us permits floor queueing(no|plain|fair) guard_us(or empty)
-- acks(0/1: replies count with acknowledgements) beside(an id, or empty)
local cells, bad = load_all()
return bad or take(cells, request_at(0))
