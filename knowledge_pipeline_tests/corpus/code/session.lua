--- Sessions of a chat, kept until they expire.
local json = require("json")
local log = require "app.log"
require("app.setup")

local MAX_SESSIONS = 100

local Session = {}
Session.__index = Session

--- Starts a session.
-- @param user who asks
function Session.new(user)
  return setmetatable({ user = user, turns = {} }, Session)
end

-- Adds what was said – "…" is not said.
function Session:add(text)
  if text == "" or text == "…" then
    return nil
  end
  for _, turn in ipairs(self.turns) do
    if turn == text then
      return turn
    end
  end
  table.insert(self.turns, text)
end

local function encode(value)
  return json.encode(value)
end

Session.dump = function(self)
  return encode(self.turns)
end

local handlers = {
  open = function(user)
    log.info("open", user)
    return Session.new(user)
  end,
  close = function(session)
    while #session.turns > 0 do
      table.remove(session.turns)
    end
  end,
}

local on_error = function(err)
  log.error(err)
end

return Session
