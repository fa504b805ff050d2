-- Deletes the recording of a failed row. An entry of the stream informs collectors that the row's
-- error line is no longer valid. Removes a deadline that has passed. Values: batch, line, entry and
-- sum (id and checksum of the row's recording), now. Returns reply.ok, reply.recorded if the
-- recording or the row's job does not exist, reply.no_batch or reply.cancelled.
local keys = keysOf(arg.batch)
local refused = closed(keys)
if refused then
  return refused
end
local text = redis.call('HGET', keys.results, arg.line)
if #redis.call('XRANGE', keys.stream, arg.entry, arg.entry) == 0 or not text or redis.call('HEXISTS', keys.jobs, arg.line) == 0 then
  return reply.recorded
end
redis.call('XDEL', keys.stream, arg.entry)
redis.call('XADD', keys.stream, '*', 'line', arg.line, 'sum', arg.sum, 'failed', 0, 'was', string.sub(redis.sha1hex(text), 1, 16))
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
