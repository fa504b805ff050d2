-- Adds tasks at the end of the waiting rows of their batches, except tasks whose ids exist. A batch
-- that had no waiting rows gets the lowest turn of the other batches (see fill.lua). The model
-- alias of the queue is noted in each batch's meta. Values: queue, now_ns. Rows: id, message.
-- Returns the numbers (from 1) of the rows whose ids exist. It adds nothing, and returns only
-- reply.no_batch or reply.cancelled, if a batch takes no more rows.
local known, joined, open = {}, {}, {}
local alias = string.match(arg.queue, '^(.*):')
local turns = turnsKey(arg.queue)
for _, row in ipairs(rows) do
  local batch = rowOf(row.id)
  local refused = not open[batch] and closed(keysOf(batch))
  if refused then
    return {refused}
  end
  open[batch] = true
end
redis.call('SADD', 'asynq:queues', arg.queue)
for batch in pairs(open) do
  redis.call('HSETNX', batchKey(batch, 'meta'), 'alias:' .. alias, 1)
end
for n, row in ipairs(rows) do
  local task = taskKey(arg.queue, row.id)
  local batch, line = rowOf(row.id)
  if redis.call('EXISTS', task) == 1 then
    known[#known + 1] = n
  else
    redis.call('HSET', task, 'msg', row.message, 'state', 'waiting', 'pending_since', arg.now_ns)
    redis.call('LPUSH', waitingKey(arg.queue, batch), line)
    if not joined[batch] then
      joined[batch] = true
      local first = redis.call('ZRANGE', turns, 0, 0, 'WITHSCORES')
      redis.call('ZADD', turns, 'NX', first[2] or 0, batch)
    end
  end
end
fill(arg.queue)
return known
