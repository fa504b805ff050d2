-- Stops workers from taking tasks of queues. It works even while Redis has no memory left: a script
-- that first makes a write that needs no memory, here DEL, may make other writes after it. Values:
-- now_s. Rows: queue. Returns the number of queues that were not paused.
local changed = 0
for _, row in ipairs(rows) do
  local key = asynqKey(row.queue, 'paused')
  local since = redis.call('GET', key)
  redis.call('DEL', key)
  redis.call('SET', key, since or arg.now_s)
  changed = changed + (since and 0 or 1)
end
return changed
