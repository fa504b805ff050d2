-- Records a row: stores its result, counts it, and appends its line to the batch's stream. Returns 1, a refusal, or -6 if another model
-- has answered rows of the batch. The first answer pins the model. If a task is given, it is removed and counted as asynq does for a
-- task that is done. Appended to refusal.lua.
-- KEYS: meta, done, attempts, results, stream, jobs, checkpoints, deliveries, deaths.
-- ARGV: line, result, 'done' or 'failed', now in ms, checksum of the row, FileID or '', job of a failed row or '',
-- number of the delivery, model of an answer or '', id of the task or '', its queue, today, time in s until which asynq counts the tasks
-- of today, then names of counters of meta and their increments.
local refused = refusal(KEYS[1], KEYS[2], KEYS[8], ARGV[1], ARGV[8], ARGV[6])
if refused then
  return refused
end
if ARGV[9] ~= '' then
  local is = redis.call('HMGET', KEYS[1], 'pin', 'mixed')
  if not is[1] then
    redis.call('HSET', KEYS[1], 'pin', ARGV[9])
  elseif is[1] ~= ARGV[9] and not is[2] then
    return -6
  end
end
redis.call('SETBIT', KEYS[2], ARGV[1], 1)
for _, i in ipairs({3, 7, 8, 9}) do
  redis.call('HDEL', KEYS[i], ARGV[1])
end
redis.call('HSET', KEYS[4], ARGV[1], ARGV[2])
redis.call('XADD', KEYS[5], '*', 'line', ARGV[1], 'sum', ARGV[5], 'failed', ARGV[3] == 'failed' and 1 or 0) -- a number takes 2 bytes
redis.call('HINCRBY', KEYS[1], ARGV[3], 1)
redis.call('HSET', KEYS[1], 'last_ms', ARGV[4])
if ARGV[7] ~= '' then
  redis.call('HSET', KEYS[6], ARGV[1], ARGV[7])
else
  redis.call('HDEL', KEYS[6], ARGV[1])
end
for i = 14, #ARGV, 2 do
  redis.call('HINCRBY', KEYS[1], ARGV[i], ARGV[i + 1])
end
if ARGV[10] ~= '' then
  local asynq = 'asynq:{' .. ARGV[11] .. '}:'
  if redis.call('LREM', asynq .. 'active', 1, ARGV[10]) == 1 then
    redis.call('ZREM', asynq .. 'lease', ARGV[10])
    redis.call('DEL', asynq .. 't:' .. ARGV[10])
    redis.call('INCR', asynq .. 'processed')
    if redis.call('INCR', asynq .. 'processed:' .. ARGV[12]) == 1 then
      redis.call('EXPIREAT', asynq .. 'processed:' .. ARGV[12], ARGV[13])
    end
  end
end
