-- block-senders: refuses senders and sender domains that are on a list
--
-- Change the two tables to your needs. A domain stands for all domains below it as well.

local senders = {
  ["spam@example.org"] = true,
}

local domains = {
  ["spam.example"] = true,
}

local function is_blocked_domain(domain)
  while domain do
    if domains[domain] then return true end
    domain = domain:match("%.(.+)$")
  end
  return false
end

return {
  ["smtp.mail"] = function(ctx)
    if senders[ctx.sender:lower()] or is_blocked_domain(ctx.sender_domain) then
      return reject(550, "5.7.1 Your mail is not wanted here")
    end
  end,

  tests = {
    ["a sender on the list is refused"] = function(run)
      local answer = run("smtp.mail", { sender = "Spam@example.org", sender_domain = "example.org" })
      assert(answer.kind == "reject" and answer.code == 550)
    end,
    ["so is a domain, and what is below it"] = function(run)
      assert(run("smtp.mail", { sender = "a@spam.example", sender_domain = "spam.example" }))
      assert(run("smtp.mail", { sender = "a@x.spam.example", sender_domain = "x.spam.example" }))
    end,
    ["others are not, nor is the null sender"] = function(run)
      assert(run("smtp.mail", { sender = "a@nospam.example", sender_domain = "nospam.example" }) == nil)
      assert(run("smtp.mail", { sender = "", sender_domain = "" }) == nil)
    end,
  },
}
