-- Forgets a role, its token included, unless somebody has its lease. Answers inuse | absent | purged, each with the
-- store's clock.
local lease, bad = read_lease()
if bad then
  return bad
end
local record
record, bad = read_record()
if bad then
  return bad
end
if lease then
  return { 'inuse', text(now) }
end
if not record then
  return { 'absent', text(now) }
end
redis.call('DEL', record_key)
return { 'purged', text(now) }
