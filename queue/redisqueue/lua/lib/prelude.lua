-- The beginning of every script. ARGV has the names of the call's values, the values, and, if the
-- call has rows, the names of their columns and the values of each row. arg has the values by their
-- names, rows has a table for each row with its values by their columns. Before this text, load
-- (scripts.go) puts the tables reply, with the numbers with which scripts answer for a row,
-- batchKeys and counters, and the function rowOf.
local arg, rows = {}, {}
do
  local i, columns = 1, {}
  for name in string.gmatch(ARGV[1], '[%w_]+') do
    i = i + 1
    arg[name] = ARGV[i]
  end
  for name in string.gmatch(ARGV[i + 1] or '', '[%w_]+') do
    columns[#columns + 1] = name
  end
  local width, n = #columns, 0
  for first = i + 2, #ARGV, math.max(width, 1) do
    local row = {}
    for c = 1, width do
      row[columns[c]] = ARGV[first + c - 1]
    end
    n = n + 1
    rows[n] = row
  end
end

local function batchKey(batch, name) return 'ingot:{' .. batch .. '}:' .. name end

-- keysOf returns the keys of a batch, as a list and by their names.
local function keysOf(batch)
  local keys = {}
  for i, name in ipairs(batchKeys) do
    keys[i] = batchKey(batch, name)
    keys[name] = keys[i]
  end
  return keys
end

-- closed returns the reply for a batch that does not exist or is cancelled; nil for other batches.
local function closed(keys)
  local is = redis.call('HMGET', keys.meta, 'created_ms', 'cancelled_ms')
  return not is[1] and reply.no_batch or is[2] and reply.cancelled or nil
end

local function asynqKey(queue, name) return 'asynq:{' .. queue .. '}:' .. name end
local function taskKey(queue, id) return 'asynq:{' .. queue .. '}:t:' .. id end
local function fleetKey(name) return 'ingot:{:fleet}:' .. name end
local function turnsKey(queue) return 'ingot:{' .. queue .. '}:turns' end
local function longerKey(queue) return 'ingot:{' .. queue .. '}:longer' end
local function waitingKey(queue, batch) return 'ingot:{' .. queue .. '}:waiting:' .. batch end

-- whole returns a count of a row in a hash of a batch; 0 if there is none, or something else.
local function whole(value)
  return type(value) == 'string' and #value < 16 and string.match(value, '^%d+$') and tonumber(value) or 0
end

-- number writes a large number without an exponent.
local function number(n) return string.format('%.0f', n) end

-- change adds a number to a row's count. It is not stored if it is 0 or less.
local function change(key, line, by)
  local n = whole(redis.call('HGET', key, line)) + by
  if n > 0 then
    redis.call('HSET', key, line, number(n))
  else
    redis.call('HDEL', key, line)
  end
end

-- nowMS returns the time in ms.
local function nowMS()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end
