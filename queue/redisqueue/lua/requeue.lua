-- Deletes the recording of a failed row. An entry of the stream informs collectors that the row's
-- error line is no longer valid. Removes a deadline that has passed. Values: batch, line, entry (id
-- of the row's recording), now. Returns reply.ok, reply.recorded if the recording or the row's job
-- does not exist, reply.no_batch or reply.cancelled.
local keys = keysOf(arg.batch)
local is = redis.call('HMGET', keys.meta, 'created_ms', 'cancelled_ms')
if not is[1] then
  return reply.no_batch
end
if is[2] then
  return reply.cancelled
end
local entry = redis.call('XRANGE', keys.stream, arg.entry, arg.entry)[1]
local text = redis.call('HGET', keys.results, arg.line)
if not entry or not text or redis.call('HEXISTS', keys.jobs, arg.line) == 0 then
  return reply.recorded
end
local fields = {}
for i = 1, #entry[2], 2 do
  fields[entry[2][i]] = entry[2][i + 1]
end
if fields.line ~= arg.line or fields.failed ~= '1' and fields.outcome ~= 'failed' then -- earlier versions wrote "outcome" instead of "failed"
  return reply.recorded
end
redis.call('XDEL', keys.stream, arg.entry)
redis.call('XADD', keys.stream, '*', 'line', arg.line, 'sum', fields.sum, 'failed', 0, 'was', string.sub(redis.sha1hex(text), 1, 16))
redis.call('HDEL', keys.results, arg.line)
redis.call('HDEL', keys.attempts, arg.line)
redis.call('SETBIT', keys.done, arg.line, 0)
redis.call('HINCRBY', keys.meta, 'failed', -1)
redis.call('HDEL', keys.meta, 'finished_ms')
local deadline = tonumber(redis.call('HGET', keys.meta, 'deadline_ms'))
if deadline and deadline <= tonumber(arg.now) then
  redis.call('HDEL', keys.meta, 'deadline_ms')
end
for _, key in ipairs(keys) do
  redis.call('PERSIST', key)
end
return reply.ok
