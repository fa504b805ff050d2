-- Subtracts a death that was counted for a worker that was only suspended and runs again. Values:
-- batch, line.
change(batchKey(arg.batch, 'deaths'), arg.line, -1)
return reply.ok
