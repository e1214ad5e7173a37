-- The ledger as it stands; changes nothing. Answers ledger [revision body], after its name with the store's clock.
--
-- ARGV: latest
local ledger, bad = load()
if bad then
  return bad
end
return with_ledger('ledger', ledger)
