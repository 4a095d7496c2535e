-- 0005-directory-order - indexes for the list of the directory's entries
--
-- Why:  a page of it costs what it holds, not what the tenant has.
-- Lock: who writes accounts, aliases or contacts waits while an index is built.
-- Long: under a second for a hundred thousand rows.

-- The aliases that lead to an account, and the account that an alias leads to.
CREATE INDEX alias_target_target ON alias_target (target);

CREATE INDEX account_address ON account (address);

CREATE INDEX contact_place ON contact (domain_id, contact_id);
