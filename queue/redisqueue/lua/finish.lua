-- finish ends a batch if all its rows are recorded. Its keys then expire after their retention. The first key is meta.
local function finish(keys)
  local m = redis.call('HMGET', keys[1], 'total', 'done', 'failed', 'retention_ms')
  if m[1] and (tonumber(m[2]) or 0) + (tonumber(m[3]) or 0) >= tonumber(m[1]) then
    redis.call('HSETNX', keys[1], 'finished_ms', redis.call('HGET', keys[1], 'last_ms'))
    for i = 1, #keys do
      redis.call('PEXPIRE', keys[i], m[4])
    end
  end
end
