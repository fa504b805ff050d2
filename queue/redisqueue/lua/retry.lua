-- Deletes the recording of a failed row. An entry of the stream informs collectors that the row's error line is no longer valid. Returns
-- 1, 0 if the recording or the row's job does not exist, -1 if the batch is unknown, -2 if it is cancelled. Removes a deadline that has
-- passed.
-- KEYS: meta, done, attempts, results, stream, jobs. ARGV: line, id of the row's recording, now in ms.
local is = redis.call('HMGET', KEYS[1], 'created_ms', 'cancelled_ms')
if not is[1] then
  return -1
end
if is[2] then
  return -2
end
local entry = redis.call('XRANGE', KEYS[5], ARGV[2], ARGV[2])[1]
local text = redis.call('HGET', KEYS[4], ARGV[1])
if not entry or not text or redis.call('HEXISTS', KEYS[6], ARGV[1]) == 0 then
  return 0
end
local fields = {}
for i = 1, #entry[2], 2 do
  fields[entry[2][i]] = entry[2][i + 1]
end
if fields['line'] ~= ARGV[1] or fields['failed'] ~= '1' and fields['outcome'] ~= 'failed' then -- earlier versions wrote "outcome" instead of "failed"
  return 0
end
redis.call('XDEL', KEYS[5], ARGV[2])
redis.call('XADD', KEYS[5], '*', 'line', ARGV[1], 'sum', fields['sum'], 'failed', 0, 'was', string.sub(redis.sha1hex(text), 1, 16))
redis.call('HDEL', KEYS[4], ARGV[1])
redis.call('HDEL', KEYS[3], ARGV[1])
redis.call('SETBIT', KEYS[2], ARGV[1], 0)
redis.call('HINCRBY', KEYS[1], 'failed', -1)
redis.call('HDEL', KEYS[1], 'finished_ms')
local deadline = tonumber(redis.call('HGET', KEYS[1], 'deadline_ms'))
if deadline and deadline <= tonumber(ARGV[3]) then
  redis.call('HDEL', KEYS[1], 'deadline_ms')
end
for i = 1, #KEYS do
  redis.call('PERSIST', KEYS[i])
end
return 1
