-- An operator's word: ends the holds under a token, whoever has them, and tells their sidecars. Answers unlocked, with
-- the one who held it, or with nobody where they were ended before and nobody came since; or differs, with those who
-- hold it: each as owner identity token holds remaining_us, after its name with the store's clock.
--
-- ARGV after the names: token
local token = tonumber(arg(1))

local cells, bad = load_all()
if bad then
  return bad
end
local cell, under = cells[1], {}
for _, hold in ipairs(cell.holds) do
  if is_under(cell, hold, token) then
    table.insert(under, hold)
  end
end
local reply = { 'unlocked', text(now) }
if not under[1] and (cell.holds[1] or token > cell.ended) then
  reply[1] = 'differs'
end
for _, words in ipairs(told(cell)) do
  for _, word in ipairs((not under[1] or words[3] == text(under[1].token)) and words or {}) do
    table.insert(reply, word)
  end
end
for _, hold in ipairs(under) do
  -- First what is never refused: then the rest is not either.
  redis.call('HDEL', cell.key, 'h:' .. hold.id)
  hold.rests = false
  give_back(cell, hold.id)
end
if under[1] then
  if cell.permits == 1 then
    -- As if somebody had come since: nothing of that owner returns, whatever is known of it here.
    cell.token = cell.token + 1
  end
  save(cell)
  for _, hold in ipairs(under) do
    redis.call('PUBLISH', ARGV[2] .. hold.session, 'v1 unlocked ' .. hold.id .. ' ' .. cell.name)
  end
  wake_next(cell)
end
return reply
