-- a run of a new session whose question nobody has asked before
\set r random(1, 1000000000000)
SELECT mw_invoke('bench', 'a' || :r, :q || translate(md5(random()::text), '0123456789', 'ghijklmnop'), agent => :a);
