-- Fills the pending lists of several queues and lists their running tasks. Leaves out the queues that a worker has inspected within the
-- interval. Returns the name of each inspected queue and the list of owners. fill.lua and owners.lua precede this script.
-- ARGV: interval in ms, or 0 to inspect all queues, then the queues.
local inspected = {}
for i = 2, #ARGV do
  local queue = ARGV[i]
  if ARGV[1] == '0' or redis.call('SET', 'ingot:{' .. queue .. '}:reaper', 1, 'NX', 'PX', ARGV[1]) then
    fill(queue)
    inspected[#inspected + 1] = {queue, owners(queue)}
  end
end
return inspected
