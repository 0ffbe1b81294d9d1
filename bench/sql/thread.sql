-- a turn of a session with so many messages, and back to where it was
BEGIN;
SELECT mw_invoke('bench', 'thread' || :n, :q, agent => 'bench_plain');
ROLLBACK;
