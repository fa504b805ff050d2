-- Stores the checkpoint of a running row. lib/rows.lua precedes this script. Rows: batch, line,
-- delivery, checkpoint. Returns a list with reply.ok or the number with which the row is refused.
return each(function(row, b)
  local refused = refusal(b, row.line, row.delivery, '')
  if refused then
    return refused
  end
  redis.call('HSET', b.keys.checkpoints, row.line, row.checkpoint)
  return reply.ok
end)
