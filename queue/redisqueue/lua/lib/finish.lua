-- finish ends a batch if all its rows are recorded. Its keys then expire after their retention.
local function finish(keys)
  local m = redis.call('HMGET', keys.meta, 'total', 'done', 'failed', 'retention_ms')
  if m[1] and (tonumber(m[2]) or 0) + (tonumber(m[3]) or 0) >= tonumber(m[1]) then
    redis.call('HSETNX', keys.meta, 'finished_ms', redis.call('HGET', keys.meta, 'last_ms'))
    for _, key in ipairs(keys) do
      redis.call('PEXPIRE', key, m[4])
    end
  end
end
