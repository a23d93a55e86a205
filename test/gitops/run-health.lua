-- Runs the check of the first argument on each resource of the list of the second, both files, with the libraries that Argo CD
-- gives to checks by default: base and table. Prints each status and message, with a zero byte after each.
local environment = {
  ipairs = ipairs, next = next, pairs = pairs, select = select, table = table, tonumber = tonumber,
  tostring = tostring, type = type, unpack = unpack, error = error, pcall = pcall,
}
getmetatable("").__index = nil
local check = assert(loadfile(arg[1]))
setfenv(check, environment)
for _, resource in ipairs(dofile(arg[2])) do
  environment.obj = resource
  local health = check()
  io.write(health.status, "\0", health.message, "\0")
end
