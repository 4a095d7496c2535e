-- sort-lists: mail of lists goes to mailboxes of their names, suspects go to Junk
--
-- A mailbox that is not there is INBOX: nothing is lost over a name.

local mailboxes = {
  ["announce.example.org"] = "Lists/Announce",
}

local function list_of(ctx)
  local id = ctx:header("List-Id")
  return id and id:match("<([^<>]+)>")
end

return {
  deliver = function(ctx)
    local flag = ctx:header("X-Spam-Flag")
    if flag and flag:lower() == "yes" then return quarantine("marked by a filter before us") end
    local mailbox = mailboxes[list_of(ctx) or ""]
    if mailbox then return accept { mailbox = mailbox, flags = { "$List" } } end
  end,

  tests = {
    ["mail of a list is filed"] = function(run)
      local answer = run("deliver", { headers = "List-Id: News <announce.example.org>\r\n\r\n" })
      assert(answer.kind == "accept" and answer.mailbox == "Lists/Announce" and answer.flags == "$List")
    end,
    ["a suspect goes to Junk"] = function(run)
      assert(run("deliver", { headers = "X-Spam-Flag: YES\r\n\r\n" }).kind == "quarantine")
    end,
    ["all else goes to INBOX"] = function(run)
      assert(run("deliver", { headers = "Subject: x\r\n\r\n" }) == nil)
      assert(run("deliver", { headers = "List-Id: Other <other.example.org>\r\n\r\n" }) == nil)
    end,
  },
}
