-- fill moves waiting rows to the end of their queue's pending list, from which workers take tasks,
-- if the list is short. Batches take turns. A turn is a number: the next row is one of the batch
-- with the lowest number, and this number then grows by 1/weight. A row whose task no longer exists
-- or no longer waits is only removed from its batch's list.
local full, low = 128, 64 -- a list with fewer than low tasks is filled to full tasks

-- nextRows moves at most n waiting rows of the first batch, which has the lowest turn, to the table
-- rows, and sorts the batches by their turns again. It returns false if the batch has no waiting
-- rows, or if its key is damaged. Errors of a batch must not end the script: the rows in the table
-- would be lost.
local function nextRows(queue, batches, n, rows)
  local b = batches[1]
  local waiting = redis.pcall('RPOP', waitingKey(queue, b.id), n)
  if not waiting or waiting.err then
    return false
  end
  if not b.weight then
    local weight = redis.pcall('HGET', batchKey(b.id, 'meta'), 'weight')
    b.weight = type(weight) == 'string' and tonumber(weight) or 1
  end
  for _, row in ipairs(waiting) do
    local id = b.id .. ':' .. row
    local task = taskKey(queue, id)
    if redis.pcall('HGET', task, 'state') == 'waiting' then
      redis.call('HSET', task, 'state', 'pending')
      rows[#rows + 1] = id
      b.turn = b.turn + 1 / b.weight
    end
  end
  local i = 1
  while batches[i + 1] and (batches[i + 1].turn < b.turn or batches[i + 1].turn == b.turn and batches[i + 1].id < b.id) do
    batches[i], batches[i + 1] = batches[i + 1], b
    i = i + 1
  end
  return true
end

local function fill(queue)
  local pending, turns = asynqKey(queue, 'pending'), turnsKey(queue)
  local length = redis.call('LLEN', pending)
  if length >= low then
    return
  end
  local rows, wanted = {}, full - length
  while #rows < wanted do
    local list = redis.call('ZRANGE', turns, 0, wanted - 1, 'WITHSCORES')
    local batches, before = {}, {}
    for i = 1, #list, 2 do
      batches[#batches + 1] = {id = list[i], turn = tonumber(list[i + 1])}
      before[list[i]] = batches[#batches].turn
    end
    if #batches == 0 then
      break
    end
    local all = #batches < wanted -- the list has all batches
    while #rows < wanted and #batches > 0 do
      local n = all and #batches == 1 and wanted - #rows or 1
      if not nextRows(queue, batches, n, rows) then
        redis.call('ZREM', turns, table.remove(batches, 1).id)
        if not all then
          break
        end
      end
    end
    for _, b in ipairs(batches) do
      if b.turn ~= before[b.id] then
        redis.call('ZADD', turns, b.turn, b.id)
      end
    end
  end
  if #rows > 0 then
    redis.call('LPUSH', pending, unpack(rows))
  end
end
