-- Runs the check of the first argument on the resource of the second, both files, with the libraries that Argo CD gives to
-- checks by default: base and table. Prints the status and the message.
local environment = {
  ipairs = ipairs, next = next, pairs = pairs, select = select, table = table, tonumber = tonumber,
  tostring = tostring, type = type, unpack = unpack, error = error, pcall = pcall,
  obj = dofile(arg[2]),
}
getmetatable("").__index = nil
local check = assert(loadfile(arg[1]))
setfenv(check, environment)
local health = check()
io.write(health.status, "\n", health.message)
