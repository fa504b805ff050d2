-- owners lists the running tasks of a queue, in reverse order of taking: id, owner, and the time in ms since the task was first seen without
-- an owner. A task has no owner if its worker died between taking and owning it.
local function owners(queue)
  local asynq = 'asynq:{' .. queue .. '}:'
  local t = redis.call('TIME')
  local ms = t[1] * 1000 + math.floor(t[2] / 1000)
  local list = {}
  for _, id in ipairs(redis.call('LRANGE', asynq .. 'active', 0, -1)) do
    local key = asynq .. 't:' .. id
    local is = redis.call('HMGET', key, 'state', 'owner', 'orphan')
    local age = 0
    if is[1] and not is[2] then
      if is[3] then
        age = ms - tonumber(is[3])
      else
        redis.pcall('HSET', key, 'orphan', string.format('%.0f', ms)) -- fails while Redis has no memory left
      end
    end
    if is[1] then
      list[#list + 1] = id
      list[#list + 1] = is[2] or ''
      list[#list + 1] = age
    end
  end
  return list
end
