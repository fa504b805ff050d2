-- Writes a worker's record, and makes the worker the owner of rows that it has taken but not begun.
-- Values: worker, record. Rows: queue, id, batch, line, delivery. Returns false if the worker was
-- declared lost and must continue under another id, otherwise the numbers (from 1) of the rows that
-- the worker does not have any more.
if redis.call('HEXISTS', fleetKey('lost'), arg.worker) == 1 then
  return false
end
redis.call('HSET', fleetKey('records'), arg.worker, arg.record)
redis.call('HSET', fleetKey('beats'), arg.worker, number(nowMS()))
local gone = {}
for n, row in ipairs(rows) do
  local task = taskKey(row.queue, row.id)
  if redis.call('HGET', task, 'state') == 'active' and isCurrent(keysOf(row.batch), row.line, row.delivery) then
    redis.call('HSET', task, 'owner', arg.worker)
    redis.call('HDEL', task, 'orphan')
  else
    gone[#gone + 1] = n
  end
end
return gone
