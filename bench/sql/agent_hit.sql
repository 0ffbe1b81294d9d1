-- a run of a new session whose model calls have been made before
\set r random(1, 1000000000000)
SELECT mw_invoke('bench', 'a' || :r, :q, agent => :a);
