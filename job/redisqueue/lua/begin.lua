-- Counts an attempt at a row. Returns a list of the number of the attempt and the row's progress, if there is any. If the attempt is
-- refused, the list has one number: a refusal, or -6 if another model has answered rows of the batch. Follows refusal.lua.
-- KEYS: meta, done, attempts, deliveries, checkpoints. ARGV: line, now in ms, FileID or '', number of the delivery, model or ''.
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
redis.call('HSETNX', KEYS[1], 'started_ms', ARGV[2])
return {redis.call('HINCRBY', KEYS[3], ARGV[1], 1), redis.call('HGET', KEYS[5], ARGV[1]) or nil}
