-- Counts an attempt at a row, and makes a worker the owner of its delivery. Returns a list: the number of the attempt and, if there is
-- any, the row's progress. If the attempt is refused, the list has one number: a refusal, -6 if another model has answered rows of the
-- batch, -7 if the task was taken from the worker meanwhile. Appended to refusal.lua.
-- KEYS: meta, done, attempts, deliveries, checkpoints, and the task if there is an owner.
-- ARGV: line, now in ms, FileID or '', number of the delivery, model or '', worker's id.
local refused = refusal(KEYS[1], KEYS[2], KEYS[4], ARGV[1], ARGV[4], ARGV[3])
if refused then
  return {refused}
end
if ARGV[5] ~= '' then
  local is = redis.call('HMGET', KEYS[1], 'pin', 'mixed')
  if is[1] and is[1] ~= ARGV[5] and not is[2] then
    return {-6}
  end
end
if KEYS[6] then
  if redis.call('HGET', KEYS[6], 'state') ~= 'active' then
    return {-7}
  end
  redis.call('HSET', KEYS[6], 'owner', ARGV[6])
  redis.call('HDEL', KEYS[6], 'orphan')
end
redis.call('HSETNX', KEYS[1], 'started_ms', ARGV[2])
return {redis.call('HINCRBY', KEYS[3], ARGV[1], 1), redis.call('HGET', KEYS[5], ARGV[1]) or nil}
