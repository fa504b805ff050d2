-- Declares a worker lost, unless it has sent another heartbeat than the given one. Deletes the
-- records of workers that were declared lost long ago. Values: worker, beat (its last known
-- heartbeat), max_age (age in ms from which records of lost workers are deleted). Returns 1, or 0
-- if the worker is alive or was declared lost before.
if redis.call('HGET', fleetKey('beats'), arg.worker) ~= arg.beat then
  return 0
end
local now = nowMS()
local lost = redis.call('HGETALL', fleetKey('lost'))
for i = 1, #lost, 2 do
  if now - tonumber(string.match(lost[i + 1], '^%d+')) > tonumber(arg.max_age) then
    redis.call('HDEL', fleetKey('records'), lost[i])
    redis.call('HDEL', fleetKey('lost'), lost[i])
  end
end
redis.call('HDEL', fleetKey('beats'), arg.worker)
redis.call('HSET', fleetKey('lost'), arg.worker, number(now) .. ' ' .. arg.beat)
return 1
