-- A lock as it stands; changes nothing. Answers insight permits(or empty) waiting, and for each owner that holds it
-- owner identity token holds remaining_us; after its name with the store's clock.
local CHECKED = 1000 -- TICKETS_CHECKED
is_looking = true

local cells, bad = load_all()
if bad then
  return bad
end
local cell = cells[1]
local waiting = redis.call('ZCARD', cell.queue)
for _, ticket in ipairs(redis.call('ZRANGE', cell.queue, '0', text(CHECKED - 1))) do
  if not lives(string.sub(ticket, 1, 32)) then
    waiting = waiting - 1
  end
end
local used = #cell.holds > 0 or waiting > 0
local reply = { 'insight', text(now), used and text(cell.permits) or '', text(waiting) }
for _, words in ipairs(told(cell)) do
  for _, word in ipairs(words) do
    table.insert(reply, word)
  end
end
return reply
