-- Ends a request that waited, or whose answer never came; what it got meanwhile is given back. Answers cancelled, with
-- the store's clock.
--
-- ARGV after the names: session id
local session, id = arg(1), arg(2)

local cells, bad = load_all()
if bad then
  return bad
end
for _, cell in ipairs(cells) do
  -- First what is never refused: then the rest is not either.
  touch(cell)
  if held_under(cell, id) then
    give_back(cell, id, id)
    save(cell)
  end
  -- A hold of a lock that its owner had already.
  for _, holder in ipairs(cell.holders) do
    if holder.request == id then
      holder.holds, holder.request = math.max(holder.holds - 1, 1), holder.id
      save(cell, holder)
      break
    end
  end
end
leave_queues(cells, session .. ':' .. id)
return { 'cancelled', text(now) }
