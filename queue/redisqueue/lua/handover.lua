-- Returns a running task to the head of its queue under a new id. The old worker's commands use the old id, so they have no effect.
-- Returns 1, or 0 if the task is not running, or has another owner.
-- KEYS: active, lease, pending, task, new task. ARGV: id, owner, new id, new id as a field of asynq's message.
if (redis.call('HGET', KEYS[4], 'owner') or '') ~= ARGV[2] or redis.call('LREM', KEYS[1], 0, ARGV[1]) == 0 then
  return 0
end
redis.call('ZREM', KEYS[2], ARGV[1])
local msg = redis.call('HGET', KEYS[4], 'msg')
redis.call('DEL', KEYS[4])
if msg and redis.call('EXISTS', KEYS[5]) == 0 then
  local t = redis.call('TIME')
  redis.call('HSET', KEYS[5], 'msg', msg .. ARGV[4], 'state', 'pending', 'pending_since', string.format('%.0f', t[1] * 1000000000 + t[2] * 1000))
  redis.call('RPUSH', KEYS[3], ARGV[3])
end
return 1
