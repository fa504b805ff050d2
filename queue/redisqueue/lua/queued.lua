-- Returns the number of rows that queues hold: those that wait in their batches, and those in lists
-- and sets of asynq, except archived ones. Rows: queue.
local n = 0
for _, row in ipairs(rows) do
  for _, batch in ipairs(redis.call('ZRANGE', turnsKey(row.queue), 0, -1)) do
    n = n + redis.call('LLEN', waitingKey(row.queue, batch))
  end
  n = n + redis.call('LLEN', asynqKey(row.queue, 'pending')) + redis.call('LLEN', asynqKey(row.queue, 'active'))
  n = n + redis.call('ZCARD', asynqKey(row.queue, 'scheduled')) + redis.call('ZCARD', asynqKey(row.queue, 'retry'))
end
return n
