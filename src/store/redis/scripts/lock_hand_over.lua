-- R7 and then R1: gives a hold back and asks for the lock on behalf of another request of the same sidecar. Answers
-- handed, with the store's clock and whether the hold was given back (0/1), and then all that lock_acquire.lua answers,
-- or garbage where that is in the way. Each half is what it is alone; whoever is first in the queue is only woken when
-- the request does not get it.
--
-- ARGV after the names: id yields(0/1: it overtakes nobody who waits), then as lock_acquire.lua
local cells, bad = load_all()
if bad then
  return bad
end
local is_released = let_go(cells, arg(1))
local request = request_at(2, arg(2) == '1')
local reply = take(cells, request)
for _, cell in ipairs(cells) do
  if cell.changed and not cell.is_saved then
    save(cell)
  end
  if cell.freed and reply[1] ~= 'granted' then
    -- Not itself: it has just been told that it cannot have it.
    wake_next(cell, nil, request.ticket)
  end
end
if reply.err then
  return reply
end
local handed = { 'handed', text(now), is_released and '1' or '0' }
for _, word in ipairs(reply) do
  table.insert(handed, word)
end
return handed
