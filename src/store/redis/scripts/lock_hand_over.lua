-- R7 and then R1: gives a lock back and asks for it on behalf of another request of the same sidecar. Answers handed,
-- with the store's clock and how many holds are left of what was given back (empty when it was not held), and then all
-- that lock_acquire.lua answers, or garbage where that is in the way. Each half is what it is alone; whoever is first
-- in the queue is only woken when the request does not get it.
--
-- ARGV after the names: id request entirely(0/1) yields(0/1: it overtakes nobody who waits), then as lock_acquire.lua
local cells, bad = load_all()
if bad then
  return bad
end
local holds_left = let_go(cells, arg(1), arg(2), arg(3) == '1')
local request = request_at(4, arg(4) == '1')
local reply = take(cells, request)
for _, cell in ipairs(cells) do
  if cell.freed then
    if not cell.is_saved then
      save(cell)
    end
    if reply[1] ~= 'granted' then
      -- Not itself: it has just been told that it cannot have it.
      wake_next(cell, nil, request.ticket)
    end
  end
end
if reply.err then
  return reply
end
local handed = { 'handed', text(now), holds_left and text(holds_left) or '' }
for _, word in ipairs(reply) do
  table.insert(handed, word)
end
return handed
