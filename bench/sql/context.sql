-- a call without memory that is given as many
BEGIN;
SELECT mw_invoke('bench', 's1', :q, messages => t.messages) FROM bench.thread AS t WHERE t.n = :n;
ROLLBACK;
