-- batch returns the keys and settings of a batch. It reads them from Redis once per script. mixed is set if several models may answer its
-- rows. The table lines has, for each batch id, the lines that the script handles.
local names = {'meta', 'done', 'attempts', 'results', 'stream', 'jobs', 'checkpoints', 'deliveries', 'deaths'}
local batches, lines = {}, {}
local function batch(id)
  local b = batches[id]
  if not b then
    b = {keys = {}}
    for i, name in ipairs(names) do
      b.keys[i] = 'ingot:{' .. id .. '}:' .. name
      b[name] = b.keys[i]
    end
    local pin
    b.created, b.cancelled, b.file, b.lines, b.mixed, b.started, pin =
      unpack(redis.call('HMGET', b.meta, 'created_ms', 'cancelled_ms', 'file_sha256', 'lines', 'mixed', 'started_ms', 'pin'))
    b.pins = {[''] = pin}
    b.rows, b.asked = {}, {}
    for _, line in ipairs(lines[id]) do
      if not b.rows[line] and not (b.lines and tonumber(line) > tonumber(b.lines)) then
        b.rows[line] = {}
        b.asked[#b.asked + 1] = line
      end
    end
    batches[id] = b
  end
  return b
end

-- read reads the values of one of a batch's hashes for all lines that the script handles. It stores them in b.rows under the hash's name.
local function read(b, name)
  for i, value in ipairs(redis.call('HMGET', b[name], unpack(b.asked))) do
    b.rows[b.asked[i]][name] = value
  end
end

-- pinOf returns the model that answered rows under an alias, or false. The alias is '' for rows that name none.
local function pinOf(b, alias)
  if b.pins[alias] == nil then
    b.pins[alias] = redis.call('HGET', b.meta, 'pin:' .. alias)
  end
  return b.pins[alias]
end

-- otherModel reports whether a model may not answer rows under an alias, because another model has answered some of them.
local function otherModel(b, alias, model)
  local first = model ~= '' and not b.mixed and pinOf(b, alias)
  return first and first ~= model
end

-- pin stores a model as the one that answers rows under an alias, unless one is stored already.
local function pin(b, alias, model)
  if model ~= '' and not pinOf(b, alias) then
    redis.call('HSET', b.meta, alias == '' and 'pin' or 'pin:' .. alias, model)
    b.pins[alias] = model
  end
end

-- refusal returns the reason why a write about a row is refused: -1 if the batch is unknown, -2 if it is cancelled, -3 if the row is of
-- another file, -5 if the file has no such line, 0 if the row is recorded, -4 if the row was taken from this delivery's worker. It returns
-- nil if the write is allowed. file is a FileID, or '' for any file.
local function refusal(b, line, delivery, file)
  if not b.created then
    return -1
  end
  if b.cancelled then
    return -2
  end
  if file ~= '' and b.file and b.file ~= '' and string.sub(b.file, 1, #file) ~= file then
    return -3
  end
  local row = b.rows[line]
  if not row then
    return -5
  end
  if row.recorded == nil then
    read(b, 'deliveries')
    local gets = {}
    for _, asked in ipairs(b.asked) do
      gets[#gets + 1] = 'GET'
      gets[#gets + 1] = 'u1'
      gets[#gets + 1] = asked
    end
    for i, bit in ipairs(redis.call('BITFIELD_RO', b.done, unpack(gets))) do
      b.rows[b.asked[i]].recorded = bit == 1
    end
  end
  if row.recorded then
    return 0
  end
  if tonumber(row.deliveries or 0) ~= tonumber(delivery) then
    return -4
  end
end

-- attempt calls a function. It returns the function's result, or the text of its error and true.
local function attempt(...)
  local ok, reply = pcall(...)
  if ok then
    return reply
  end
  return type(reply) == 'table' and reply.err or tostring(reply), true
end

-- each calls the function row for each row in ARGV. The first row begins at position first. A row has the given number of values; the first
-- two are batch and line. The function gets the row's position in ARGV and its number, from 1. each returns a list of what the function
-- returns for the rows. If the function fails for a row, the list has the text of the error instead.
local function each(first, values, row)
  for i = first, #ARGV, values do
    local id = ARGV[i]
    lines[id] = lines[id] or {}
    lines[id][#lines[id] + 1] = ARGV[i + 1]
  end
  local replies = {}
  for i = first, #ARGV, values do
    replies[#replies + 1] = attempt(row, i, #replies + 1)
  end
  return replies
end
