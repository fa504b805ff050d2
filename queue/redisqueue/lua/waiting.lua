-- Returns the number of rows of a queue that wait in their batches. Values: queue.
local n = 0
for _, batch in ipairs(redis.call('ZRANGE', turnsKey(arg.queue), 0, -1)) do
  n = n + redis.call('LLEN', waitingKey(arg.queue, batch))
end
return n
