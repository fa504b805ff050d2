-- Appended to record.lua and seal.lua. If all rows of the batch are recorded, the batch is finished, and its keys expire after the
-- retention.
local m = redis.call('HMGET', KEYS[1], 'total', 'done', 'failed', 'retention_ms')
if m[1] and (tonumber(m[2]) or 0) + (tonumber(m[3]) or 0) >= tonumber(m[1]) then
  redis.call('HSETNX', KEYS[1], 'finished_ms', redis.call('HGET', KEYS[1], 'last_ms'))
  for i = 1, #KEYS do
    redis.call('PEXPIRE', KEYS[i], m[4])
  end
end
return 1
