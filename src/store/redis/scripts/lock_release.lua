-- R7: gives a lock back, or one of several holds; never another's. Answers released holds | notheld, each after its
-- name with the store's clock.
--
-- ARGV after the names: id request entirely(0/1)
local cells, bad = load_all()
if bad then
  return bad
end
local holds_left = let_go(cells, arg(1), arg(2), arg(3) == '1')
for _, cell in ipairs(cells) do
  if cell.freed then
    save(cell)
    wake_next(cell)
  end
end
if not holds_left then
  return { 'notheld', text(now) }
end
return { 'released', text(now), text(holds_left) }
