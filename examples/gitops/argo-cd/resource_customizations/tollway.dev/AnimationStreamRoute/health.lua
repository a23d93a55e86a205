-- Reads status.conditions. The operator writes Stalled, Reconciling, Degraded and Paused only while they apply, and Ready is
-- True only while every process that takes calls has acknowledged this generation.
local function progressing(message)
  return { status = "Progressing", message = message }
end

local conditions = {}
if obj.status ~= nil and obj.status.conditions ~= nil then
  for _, condition in ipairs(obj.status.conditions) do
    conditions[condition.type] = condition
  end
end

local function isTrue(name)
  return conditions[name] ~= nil and conditions[name].status == "True"
end

local ready = conditions["Ready"]
if ready == nil then
  return progressing("Waiting for the operator")
end
if isTrue("Paused") then
  return { status = "Suspended", message = conditions["Paused"].message }
end
if obj.status.observedGeneration ~= obj.metadata.generation or ready.observedGeneration ~= obj.metadata.generation then
  return progressing("Waiting for the operator to process generation " .. tostring(obj.metadata.generation))
end
for _, name in ipairs({ "Stalled", "Degraded" }) do
  if isTrue(name) then
    return { status = "Degraded", message = conditions[name].message }
  end
end
if ready.status == "True" then
  return { status = "Healthy", message = ready.message }
end
return progressing(ready.message)
